# expect: error the following arguments are required
import argparse

parser = argparse.ArgumentParser(prog="resize", description="Resize an image")
parser.add_argument("input", help="path of the image")
parser.add_argument("--width", type=int, required=True)
args = parser.parse_args()
print(f"Resizing {args.input} to {args.width} pixels")
