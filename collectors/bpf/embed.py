"""Object files as C arrays, so that the programs are part of the binary and nothing is opened at run time.

    embed.py OUTPUT NAME=OBJECT ...
"""
import sys

with open(sys.argv[1], "w") as out:
    out.write('/* The BPF programs as compiled; written by collectors/bpf/embed.py. */\n\n')
    for argument in sys.argv[2:]:
        name, path = argument.split("=", 1)
        with open(path, "rb") as file:
            data = file.read()
        out.write(f"extern const unsigned char {name}[];\nextern const unsigned long {name}_size;\n")
        out.write(f"const unsigned char {name}[] __attribute__((aligned(8))) = {{\n")
        for at in range(0, len(data), 24):
            out.write("        " + " ".join(f"{byte}," for byte in data[at:at + 24]) + "\n")
        out.write(f"}};\nconst unsigned long {name}_size = sizeof {name};\n\n")
