# expect: ok
import logging
import logging.config
import logging.handlers
import os
import sys

logging.config.dictConfig({
    "version": 1,
    "formatters": {"short": {"format": "[%(levelname)-7s] %(message)s"}},
    "handlers": {"out": {"class": "logging.StreamHandler", "formatter": "short", "stream": "ext://sys.stdout"}},
    "loggers": {"jobs": {"handlers": ["out"], "level": "INFO", "propagate": False}},
})
log = logging.getLogger("jobs.nightly")
log.debug("not shown")
log.info("started with %s", os.path.basename("/data/input.csv"))

rotating = logging.handlers.RotatingFileHandler("jobs.log", maxBytes=300, backupCount=2)
log.addHandler(rotating)
log.propagate = False
for i in range(30):
    log.info("step %02d finished", i)
rotating.close()
print(sorted(name for name in os.listdir(".") if name.startswith("jobs.log")), file=sys.stdout)
