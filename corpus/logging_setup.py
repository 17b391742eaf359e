# presets: data,open
import logging
import sys

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(levelname)-8s %(name)s: %(message)s")
log = logging.getLogger("shop")
audit = logging.getLogger("shop.audit")

handler = logging.FileHandler("audit.log", mode="w", encoding="utf-8")
handler.setFormatter(logging.Formatter("[%(levelname).1s] %(message)s"))
audit.addHandler(handler)
audit.setLevel(logging.DEBUG)


class Mask(logging.Filter):
    def filter(self, record):
        record.msg = str(record.msg).replace("4111", "****")
        return True


audit.addFilter(Mask())


def checkout(total):
    log.debug("invisible")
    log.info("checkout of %.2f €", total)
    audit.info("card 4111 charged")
    try:
        return 100 / total
    except ZeroDivisionError:
        log.exception("cannot split", exc_info=False)
        log.error("total is %d", total)


checkout(50)
checkout(0)
log.warning("stock is low: %s", {"bolts": 3})
log.log(logging.CRITICAL, "shutting down")
handler.close()
audit.removeHandler(handler)
with open("audit.log", encoding="utf-8") as f:
    print(f.read(), end="")
print(logging.getLevelName(30), log.isEnabledFor(logging.DEBUG), audit.getEffectiveLevel())
