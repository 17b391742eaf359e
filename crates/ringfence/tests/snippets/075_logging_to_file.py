# expect: ok
import logging

logging.basicConfig(
    filename="app.log", filemode="w", level=logging.DEBUG, format="%(levelname)s %(name)s: %(message)s"
)
logger = logging.getLogger("shop")


def divide(a, b):
    logger.debug("divide(%s, %s)", a, b)
    try:
        return a / b
    except ZeroDivisionError:
        logger.exception("division failed")
        return None


divide(6, 3)
divide(1, 0)
logger.warning("stock is low: %d left", 3)
logging.shutdown()

for line in open("app.log"):
    if line.split(" ")[0] in ("DEBUG", "WARNING", "ERROR"):
        print(line.rstrip())
