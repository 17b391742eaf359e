# expect: status=timeout
# Compute for ever.

while True:
    pass
