"""Prints what shared libraries are made of, a line of JSON for each: python binary-facts.py FILE..."""
import json
import re
import sys

import lief

lief.logging.disable()
lazy_or_not = (lief.MachO.DyldBindingInfo.CLASS.STANDARD, lief.MachO.DyldBindingInfo.CLASS.LAZY)


def of_linux(binary):
    imported = [symbol for symbol in binary.dynamic_symbols if symbol.name and symbol.shndx == 0]
    versions = [version.name for library in binary.symbols_version_requirement for version in library.get_auxiliary_symbols()]
    glibc = {name: tuple(map(int, name[len("GLIBC_"):].split("."))) for name in versions if re.fullmatch(r"GLIBC_[\d.]*\d", name)}
    return {
        "machine": binary.header.machine_type.name,
        "exports": [symbol.name for symbol in binary.dynamic_symbols if symbol.name and symbol.shndx != 0],
        "libraries": list(binary.libraries),
        "from_node": [symbol.name for symbol in imported if not (symbol.has_version and symbol.symbol_version.has_auxiliary_version)],
        "system": max(glibc.values(), default=(0, 0)),
        # Also those that have no number, such as GLIBC_ABI_DT_RELR, which came with 2.36.
        "other_versions": [name for name in versions if name not in glibc],
    }


def of_macos(binary):
    return {
        "machine": binary.header.cpu_type.name,
        "exports": [symbol.name[1:] for symbol in binary.exported_symbols],
        "libraries": [library.name for library in binary.libraries if library.command != lief.MachO.LoadCommand.TYPE.ID_DYLIB],
        "from_node": [bound.symbol.name[1:] for bound in binary.bindings if bound.binding_class in lazy_or_not and not bound.has_library],
        "system": binary.build_version.minos[:2],
        "signed": binary.has_code_signature,
    }


def of_windows(binary):
    imports = [*binary.imports, *binary.delay_imports]
    of_node = [library for library in imports if library.name.lower() == "node.exe"]
    return {
        "machine": binary.header.machine.name,
        "exports": [entry.name for entry in binary.get_export().entries] if binary.has_exports else [],
        "libraries": [library.name for library in imports if library not in of_node],
        "from_node": [entry.name for library in of_node for entry in library.entries],
        "system": (binary.optional_header.major_subsystem_version, binary.optional_header.minor_subsystem_version),
    }


readers = {lief.ELF.Binary: ("ELF", of_linux), lief.MachO.Binary: ("Mach-O", of_macos), lief.PE.Binary: ("PE", of_windows)}
for path in sys.argv[1:]:
    binary = lief.parse(path)
    form, read = readers.get(type(binary), ("none", lambda binary: {}))
    print(json.dumps({"format": form, **read(binary)}))
