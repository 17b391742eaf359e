# presets: standard,data,open
from collections import defaultdict

words = """listen silent enlist tinsel google elbow below state taste night thing
cinema iceman dusty study arc car angel glean stressed desserts rats star tsar arts""".split()

groups = defaultdict(list)
for word in words:
    groups["".join(sorted(word))].append(word)

for key, members in sorted(groups.items(), key=lambda kv: (-len(kv[1]), kv[0])):
    if len(members) > 1:
        print(f"{key:<10} {', '.join(sorted(members))}")

palindromes = [w for w in ("level", "radar", "python", "Noon", "A man a plan a canal Panama") if (t := w.lower().replace(" ", "")) == t[::-1]]
print("palindromes:", palindromes)
semordnilaps = sorted((w, w[::-1]) for w in set(words) if w[::-1] in words and w < w[::-1])
print("reversed pairs:", semordnilaps)
vowels = {w: sum(ch in "aeiou" for ch in w) for w in words}
print("most vowels:", max(sorted(vowels), key=vowels.get))
print("isograms:", [w for w in words if len(set(w)) == len(w)][:8])
sorted(groups)[:3]
