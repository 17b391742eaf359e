# expect: ok
import locale

locale.setlocale(locale.LC_ALL, "C")
print(locale.format_string("%.2f", 1234567.891, grouping=True))
for name in ("de_DE.UTF-8", "fr_FR.UTF-8", "xx_XX.UTF-8"):
    try:
        locale.setlocale(locale.LC_NUMERIC, name)
        print(name, locale.format_string("%.2f", 1234.5, grouping=True))
    except locale.Error as e:
        print(name, "is not installed:", e)
locale.setlocale(locale.LC_ALL, "")
print(locale.getpreferredencoding(False).lower().replace("-", ""), locale.strcoll("a", "b") < 0)
names = ["Zoë", "adam", "Bea"]
print(sorted(names, key=str.casefold), sorted(names, key=locale.strxfrm)[0] in names)
