"""Looks at what a test run could leave behind: everything of each kind, as leaks.Things."""
import ctypes
import itertools
import os
import pathlib
import re
import shutil
import struct
import subprocess

from leaks import BPF, Thing

PROC = pathlib.Path("/proc")
FOLDERS = ("/tmp", "/dev/shm", "/run")
COMMAND_SECONDS = 5

BPF_CALL = {"x86_64": 321, "aarch64": 280}.get(os.uname().machine)
BPF_PROG_GET_NEXT_ID, BPF_PROG_GET_FD_BY_ID, BPF_OBJ_GET_INFO_BY_FD, BPF_PROG_QUERY = 11, 13, 15, 16
BPF_PROG_TYPE_CGROUP_DEVICE = 15
BPF_CGROUP_DEVICE = 6
MOST_PROGRAMS = 64  # Of one group.


def read(path):
    """A file's text; empty where it has gone or is not for us."""
    try:
        return pathlib.Path(path).read_bytes().decode(errors="replace")
    except OSError:
        return ""


def link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def live_processes():
    for entry in PROC.glob("[0-9]*"):
        stat = read(entry / "stat")
        if stat and stat[stat.rindex(")") + 2] not in "ZX":
            yield entry


def processes(entries):
    for entry in entries:
        status = read(entry / "status")
        uids = re.search(r"^Uid:(.*)$", status, re.MULTILINE)
        command = read(entry / "cmdline").replace("\0", " ")
        yield Thing("process", f"{read(entry / 'comm').strip()}[{entry.name}]",
                    " ".join((command, read(entry / "cgroup"), link(entry / "exe"))),
                    tuple(map(int, uids[1].split())) if uids else ())


def by_namespace(entries, kind):
    """One process of each namespace: {inode: entry}."""
    return {name: entry for entry in entries if (name := link(entry / "ns" / kind))}


def mounts(entries):
    for name, entry in by_namespace(entries, "mnt").items():
        for line in read(entry / "mountinfo").splitlines():
            fields, source = line.split(" - ")[0].split(), line.split(" - ")[-1].split()
            yield Thing("mount", f"{fields[4]} ({' '.join(source[:2])}, {fields[0]} in {name})", line)


def links(entries):
    for name, entry in by_namespace(entries, "net").items():
        for line in read(entry / "net/dev").splitlines()[2:]:
            yield Thing("link", f"{line.split(':')[0].strip()} in {name}")
    for alias in pathlib.Path("/sys/class/net").glob("*/ifalias"):
        if text := read(alias).strip():
            yield Thing("link alias", f"{alias.parent.name} {text}")


def network_namespaces():
    """Those that have a name; the others live as long as their processes."""
    return (Thing("network namespace", str(path))
            for path in pathlib.Path("/run/netns").glob("*"))


def command(kind, *argv):
    if shutil.which(argv[0]):
        result = subprocess.run(argv, capture_output=True, text=True, timeout=COMMAND_SECONDS)
        yield from (Thing(kind, line.strip()) for line in result.stdout.splitlines())


def cgroup_folders():
    for line in read("/proc/self/mountinfo").splitlines():
        if line.split(" - ")[1].startswith("cgroup2 "):
            return [path for path, _, _ in os.walk(line.split()[4])]
    return []


def bpf(number, *fields):
    """bpf(2): its result and what it has written, (-1, …) where it fails."""
    attributes = ctypes.create_string_buffer(struct.pack("<" + "".join(
        "Q" if wide else "I" for _, wide in fields), *(value for value, _ in fields)), 128)
    if BPF_CALL is None:
        return -1, b""
    result = ctypes.CDLL(None, use_errno=True).syscall(BPF_CALL, number, attributes, 128)
    return result, attributes.raw


def program_kind(number):
    fd, _ = bpf(BPF_PROG_GET_FD_BY_ID, (number, False))
    if fd < 0:
        return None
    try:
        info = ctypes.create_string_buffer(256)
        result, _ = bpf(BPF_OBJ_GET_INFO_BY_FD, (fd, False), (len(info), False),
                        (ctypes.addressof(info), True))
        return struct.unpack("<I", info.raw[:4])[0] if result == 0 else None
    finally:
        os.close(fd)


def programs_of_group(path):
    """The ids of the device filters that a control group has."""
    try:
        group = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return []
    try:
        ids = (ctypes.c_uint32 * MOST_PROGRAMS)()
        result, written = bpf(
            BPF_PROG_QUERY, (group, False), (BPF_CGROUP_DEVICE, False), (0, False), (0, False),
            (ctypes.addressof(ids), True), (MOST_PROGRAMS, False))
        return ids[:struct.unpack_from("<I", written, 24)[0]] if result == 0 else []
    finally:
        os.close(group)


def program_holders(entries, groups):
    """{program id: who holds it, in words}."""
    holders = {}
    for path in groups:
        for number in programs_of_group(path):
            holders.setdefault(number, []).append(path)
    for entry in entries:
        for info in (entry / "fdinfo").glob("*") if os.access(entry / "fdinfo", os.R_OK) else ():
            if found := re.search(r"^prog_id:\s*(\d+)$", read(info), re.MULTILINE):
                holders.setdefault(int(found[1]), []).append(read(entry / "cmdline"))
    return holders


def bpf_programs(entries, groups):
    holders, number = program_holders(entries, groups), 0
    while True:
        result, written = bpf(BPF_PROG_GET_NEXT_ID, (number, False), (0, False), (0, False))
        if result < 0:
            return
        number = struct.unpack_from("<I", written, 4)[0]
        if program_kind(number) == BPF_PROG_TYPE_CGROUP_DEVICE:
            yield Thing(BPF, f"cgroup device filter {number}", " ".join(holders.get(number, [])))


def loop_devices():
    for file in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        yield Thing("loop device", f"{file.parts[3]} of {read(file).strip()}")


def keys():
    for line in read("/proc/keys").splitlines():
        fields = line.split(None, 8)
        owner = (int(fields[5]),) if len(fields) == 9 and fields[5].isdigit() else ()
        yield Thing("key", f"{fields[0]} {fields[-1]}", ids=owner)


def key_users():
    """Users that own keys. The count of keys is left out: it changes as keyrings are collected."""
    for line in read("/proc/key-users").splitlines():
        user, counts = line.split(":", 1)
        if counts.split()[1].split("/")[0] != "0":
            yield Thing("owner of keys", user.strip(), ids=(int(user),))


def sysv_ipc():
    for kind in ("shm", "sem", "msg"):
        lines = [line.split() for line in read(f"/proc/sysvipc/{kind}").splitlines()]
        for fields in lines[1:]:
            row = dict(zip(lines[0], fields))
            yield Thing(f"SysV {kind}", f"{row[kind + 'id']} key {row['key']}",
                        ids=(int(row["uid"]), int(row["cuid"])))


def files(folder_of_run):
    for folder in (*FOLDERS, folder_of_run):
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        yield from (Thing("file", f"{folder}/{name}") for name in names
                    if f"{folder}/{name}" != folder_of_run)


def sockets():
    for line in read("/proc/net/unix").splitlines()[1:]:
        fields = line.split(None, 7)
        if len(fields) == 8:
            yield Thing("socket", f"{fields[7]} (inode {fields[6]})")


def look(folder_of_run):
    """Everything that there is."""
    entries, groups = list(live_processes()), cgroup_folders()
    return list(itertools.chain(
        processes(entries), mounts(entries), (Thing("cgroup", path) for path in groups),
        network_namespaces(), links(entries), command("nftables", "nft", "list", "tables"),
        command("ip rule", "ip", "rule"), command("ip rule", "ip", "-6", "rule"),
        bpf_programs(entries, groups), loop_devices(), keys(), key_users(), sysv_ipc(),
        files(folder_of_run), sockets()))
