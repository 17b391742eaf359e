# presets: standard,data,open
from collections import Counter
from textwrap import wrap

DNA = "ATGGCCATTGTAATGGGCCGCTGAAAGGGTGCCCGATAG" * 2 + "TTACGATGAAATAG"

CODON = {}
BASES = "TCAG"
AMINO = "FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG"
i = 0
for a in BASES:
    for b in BASES:
        for c in BASES:
            CODON[a + b + c] = AMINO[i]
            i += 1


def complement(dna):
    return dna.translate(str.maketrans("ATCG", "TAGC"))[::-1]


def translate(dna):
    return "".join(CODON[dna[k : k + 3]] for k in range(0, len(dna) - 2, 3))


def open_frames(dna):
    for frame in range(3):
        protein = translate(dna[frame:])
        for piece in protein.split("*")[:-1]:
            start = piece.find("M")
            if start >= 0:
                yield frame, piece[start:]


counts = Counter(DNA)
print({base: counts[base] for base in "ACGT"}, f"GC {100 * (counts['G'] + counts['C']) / len(DNA):.1f}%")
print("\n".join(wrap(complement(DNA), 30)))
print(translate(DNA))
for frame, protein in open_frames(DNA):
    print(frame, protein)
kmers = Counter(DNA[k : k + 4] for k in range(len(DNA) - 3))
print([kv for kv in sorted(kmers.items(), key=lambda kv: (-kv[1], kv[0]))[:5]])
