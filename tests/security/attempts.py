"""What hostile programs try of the kernel, and what must come of it: one table.

A row is (id, calls, expected). The id is that of docs/security.md. Calls are system calls by name
or number with their arguments in the language of attempt.c, one after the other. Expected are the
allowed results of the last one: names of errnos, `ok` (any result that is none), or `=N`. Where it
depends on who tries, it is a dictionary with a key `*` for all others: `root` and `user` inside,
`strict` (both users of that profile).
"""

import re

OUT = "EPERM"  # The filter, or the capability behind it.
CLOSED = "EPERM EACCES EROFS ENOENT"  # A file that cannot be opened like this.


def opened(path, flags):
    return f"openat -100 s:{path} {flags}"


def emptied(path):
    """Nothing can be read: it is not there, refused, or a null device lies over it."""
    return f"openat -100 s:{path} 0; read r b 64"


ROWS = [
    ("E1", "io_uring_setup 1 b", OUT),
    ("E1", "io_uring_enter 0 0 0 0", OUT),
    ("E1", "io_uring_register 0 0 0 0", OUT),
    ("E2", "userfaultfd 0", OUT),
    ("E2", "userfaultfd 1", OUT),
    ("E2", opened("/dev/userfaultfd", 2), CLOSED),
    ("E3", "bpf 0 b 64", OUT),
    ("E3", "bpf 5 b 64", OUT),
    ("E3", "perf_event_open b 0 -1 -1 0", OUT),
    ("E4", "keyctl 0 -3 0", OUT),
    ("E4", "keyctl 1 0", OUT),
    ("E4", "keyctl 11 0 b 64", OUT),
    ("E4", "add_key s:user s:x b 1 -3", OUT),
    ("E4", "request_key s:user s:x 0 -3", OUT),
    ("E4", emptied("/proc/keys"), "=0 EBADF"),
    ("E4", emptied("/proc/key-users"), "=0 EBADF"),
    ("E5", "mount s:none s:/mnt s:tmpfs 0 0", OUT),
    ("E5", "mount s:/ s:/mnt 0 0x1000 0", OUT),
    ("E5", "mount 0 s:/proc/sys 0 0x1020 0", OUT),
    ("E5", "umount2 s:/proc/kcore 2", OUT),
    ("E5", "pivot_root s:/tmp s:/tmp", OUT),
    ("E5", "fsopen s:tmpfs 0", OUT),
    ("E5", "fspick -100 s:/ 0", OUT),
    ("E5", "fsmount 0 0 0", OUT),
    ("E5", "fsconfig 0 0 0 0 0", OUT),
    ("E5", "open_tree -100 s:/ 1", OUT),
    ("E5", "open_tree -100 s:/ 0", OUT),
    ("E5", "move_mount -100 s:/tmp -100 s:/mnt 0", OUT),
    ("E5", "mount_setattr -100 s:/proc 0 b 32", OUT),
    ("E5", "openat -100 s:/proc/self/ns/mnt 0; setns r 0", OUT),
    ("E5", "pidfd_open 1 0; setns r 0x20000000", OUT),
    *[
        ("E5", f"{call} {hex(flag)}", OUT)
        for call in ("unshare", "clone")
        for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
    ],
    ("E5", "unshare 0x80", OUT),
    ("E5", "unshare 0x10020000", OUT),
    ("E5", "clone 0x10000011", OUT),
    ("E5", "unshare 0x110000000", OUT),
    ("E5", "clone3 b 64", "ENOSYS"),
    ("E5", "chroot s:/tmp", {"*": OUT, "root": "ok", "strict": OUT}),
    ("E6", "ptrace 16 1 0 0", OUT),
    ("E6", "ptrace 0x4206 1 0 0", OUT),
    ("E6", "process_vm_readv 1 v 1 v 1 0", OUT),
    ("E6", "process_vm_writev 1 v 1 v 1 0", OUT),
    ("E6", "getpid; kcmp 1 r 0 0 0", OUT),
    ("E6", "pidfd_open 1 0; pidfd_getfd r 0 0", OUT),
    ("E6", "pidfd_open 1 0; process_madvise r v 1 20 0", "EACCES EPERM"),
    ("E6", opened("/proc/1/mem", 2), CLOSED),
    ("E6", opened("/proc/1/mem", 0), CLOSED),
    ("E6", opened("/proc/1/root", 0), CLOSED),
    ("E6", opened("/proc/1/cwd", 0), CLOSED),
    ("E6", opened("/proc/1/exe", 0), CLOSED),
    ("E6", opened("/proc/1/ns/mnt", 0), CLOSED),
    ("E6", opened("/proc/1/fd/0", 0), CLOSED),
    ("E6", opened("/proc/1/map_files", 0), CLOSED),
    ("E7", "kexec_load 0 0 0 0", OUT),
    ("E7", "kexec_file_load 0 0 0 0 0", OUT),
    ("E7", "init_module b 64 s:x", OUT),
    ("E7", "finit_module 0 s:x 0", OUT),
    ("E7", "delete_module s:x 0", OUT),
    ("E7", "iopl 3", OUT),
    ("E7", "ioperm 0x80 1 1", OUT),
    ("E7", "reboot 0xfee1dead 672274793 0 0", OUT),
    ("E7", "swapon s:/tmp/x 0", OUT),
    ("E7", "swapoff s:/tmp/x", OUT),
    ("E7", "syslog 3 b 64", OUT),
    ("E7", "syslog 10 0 0", OUT),
    ("E7", "acct s:/tmp/x", OUT),
    ("E7", "quotactl 0 0 0 0", OUT),
    ("E7", "quotactl_fd 0 0 0 0", OUT),
    ("E7", "nfsservctl 0 0 0", OUT),
    ("E7", "vhangup", OUT),
    ("E7", "sethostname s:x 1", OUT),
    ("E7", "setdomainname s:x 1", OUT),
    ("E7", "lookup_dcookie 0 b 64", OUT),
    ("E7", "fanotify_init 0 0", OUT),
    ("E7", "modify_ldt 0 b 16", OUT),
    ("E7", "migrate_pages 0 0 b b", OUT),
    ("E7", "move_pages 1 0 0 0 0 0", OUT),
    ("E7", "mbind 0 0 0 0 0 0", OUT),
    ("E7", "set_mempolicy 0 0 0", OUT),
    ("E8", "personality 0x440000", OUT),
    ("E8", "personality 0x400000", OUT),
    ("E8", "personality 8", OUT),
    ("E8", "personality 0x40000", {"*": "ok", "strict": OUT}),
    ("E8", "personality 0xffffffff", "ok"),
    ("E9", "open_by_handle_at -100 b 0", OUT),
    ("E9", "name_to_handle_at -100 s:/etc/passwd b b 0", OUT),
    ("E10", "mknod s:/tmp/mem 0x2180 0x101", OUT),
    ("E10", "mknodat -100 s:/tmp/null 0x2180 0x103", OUT),
    ("E10", "mknod s:/tmp/disk 0x6180 0x800", OUT),
    ("E10", "mknod s:/dev/mem 0x2180 0x101", OUT),
    ("E10", opened("/dev/mem", 0), CLOSED),
    ("E10", opened("/dev/kmsg", 1), CLOSED),
    ("E10", opened("/dev/fuse", 2), CLOSED),
    ("E10", opened("/dev/kvm", 2), CLOSED),
    ("E10", opened("/dev/net/tun", 2), CLOSED),
    ("E10", opened("/dev/loop-control", 2), CLOSED),
    ("E10", "unlink s:/dev/null", "EROFS EACCES EPERM"),
    ("E10", "mkdir s:/dev/x 0x1ff", "EROFS EACCES"),
    ("E10", "chmod s:/dev/null 0", "EROFS EPERM"),
    ("E11", "settimeofday b 0", OUT),
    ("E11", "clock_settime 0 b", OUT),
    ("E11", "clock_settime 1 b", OUT),
    ("E11", "adjtimex b", OUT),
    ("E11", "clock_adjtime 0 b", OUT),
    *[
        ("E12", opened(path, 1), CLOSED)
        for path in (
            "/proc/sys/kernel/core_pattern",
            "/proc/sys/kernel/modprobe",
            "/proc/sys/kernel/randomize_va_space",
            "/proc/sys/kernel/hostname",
            "/proc/sys/kernel/shmmax",
            "/proc/sys/fs/binfmt_misc/register",
            "/proc/sys/fs/mqueue/msg_max",
            "/proc/sys/net/ipv4/ip_forward",
            "/proc/sys/user/max_user_namespaces",
            "/proc/sys/vm/overcommit_memory",
            "/proc/sysrq-trigger",
            "/proc/mtrr",
            "/proc/irq/default_smp_affinity",
            "/proc/bus/pci/00/00.0",
            "/proc/scsi/scsi",
            "/proc/acpi/wakeup",
            "/proc/1/oom_score_adj",
            "/proc/1/uid_map",
            "/proc/self/setgroups",
            "/sys/kernel/uevent_helper",
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "/sys/kernel/debug/x",
            "/sys/kernel/tracing/trace",
            "/sys/kernel/security/x",
            "/sys/firmware/efi/efivars/x",
            "/sys/power/state",
            "/sys/block/vda/uevent",
            "/sys/fs/cgroup/cgroup.procs",
            "/sys/fs/cgroup/cgroup.kill",
            "/sys/fs/cgroup/init/cgroup.procs",
            "/sys/fs/cgroup/../cgroup/cgroup.subtree_control",
            "/usr/bin/env",
        )
    ],
    ("E12", opened("/proc/self/uid_map", 1) + "; write r s:0 1", "EPERM EINVAL"),
    *[
        ("E13", emptied(path), "=0 EBADF EISDIR")
        for path in (
            "/proc/kcore",
            "/proc/kmsg",
            "/proc/kallsyms",
            "/proc/timer_list",
            "/proc/sched_debug",
            "/proc/interrupts",
            "/proc/slabinfo",
            "/proc/vmallocinfo",
            "/proc/config.gz",
            "/proc/kpageflags",
            "/proc/1/environ",
            "/proc/1/maps",
            "/proc/1/stack",
            "/proc/1/mountinfo/x",
            "/sys/class/dmi/id/product_uuid",
            "/sys/firmware/dmi/tables/DMI",
            "/sys/kernel/debug/sched/debug",
            "/dev/kmsg",
        )
    ],
    ("E15", "socket 38 5 0", OUT),
    ("E15", "socket 0x100000026 5 0", OUT),
    ("E15", "socketpair 38 5 0 b", OUT),
    ("E16", "socket 16 3 12", OUT),
    ("E16", "socket 17 3 3", OUT),  # AF_PACKET
    ("E16", "socket 40 1 0", OUT),  # AF_VSOCK
    ("E16", "socket 16 3 15", OUT),  # NETLINK_KOBJECT_UEVENT
    ("E16", "socket 16 3 6", OUT),  # NETLINK_XFRM
    ("E16", "socket 2 3 1", OUT),  # A raw socket
    ("E17", "mount s:x s:/mnt s:overlay 0 s:lowerdir=/,upperdir=/tmp,workdir=/tmp", OUT),
    ("E18", "memfd_secret 0", "ok ENOSYS"),
    ("E18", "landlock_create_ruleset 0 0 1", "ok ENOSYS EOPNOTSUPP"),
    ("E18", "451 0 0 0 0", "ENOSYS EPERM"),  # cachestat
    ("E18", "457 b 0 0 0", "ENOSYS EPERM"),  # statmount
    ("E18", "462 0 0 0", "ENOSYS EPERM"),  # mseal
    ("E18", "900 0", "ENOSYS"),
    ("E19", "prctl 35 1 0 0 0", OUT),  # PR_SET_MM
    ("E19", "prctl 36 1 0 0 0", "ok"),  # PR_SET_CHILD_SUBREAPER
    ("E19", "prctl 0x59616d61 0 0 0 0", "ok EINVAL"),  # PR_SET_PTRACER
    ("E19", "prctl 38 0 0 0 0", "EINVAL"),  # PR_SET_NO_NEW_PRIVS can only be set.
    ("E19", "prctl 22 0 0 0 0", "EINVAL EACCES EFAULT"),  # PR_SET_SECCOMP to none
    ("E19", "prctl 47 2 21 0 0", "EPERM"),  # PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN
    ("E20", "ioctl 0 0x5412 b", OUT),  # TIOCSTI
    ("E20", "ioctl 0 0x100005412 b", OUT),
    ("E20", "ioctl 0 0x541c b", OUT),  # TIOCLINUX
    ("E20", "ioctl 0 0x541d 0", OUT),  # TIOCCONS
    ("E20", "ioctl 0 0x5423 b", OUT),  # TIOCSETD
    ("E20", "ioctl 0 0x4b32 0", OUT),  # KDSETLED
    ("E20", opened("/dev/tty", 2), "ENXIO"),
    ("E20", opened("/dev/ptmx", 2), "ok"),
    ("E20", opened("/dev/pts/0", 2), "ENOENT"),
    ("E20", opened("/dev/console", 2), CLOSED),
    ("E21", "seccomp 1 8 f:0x7fc00000:165; mount s:x s:/mnt s:tmpfs 0 0", OUT),
    ("E21", "seccomp 1 0 f:0x7fff0000:165; mount s:x s:/mnt s:tmpfs 0 0", OUT),
    ("E21", "seccomp 1 0 f:0x7ff00000:272; unshare 0x10000000", OUT),  # SECCOMP_RET_TRACE
    ("A12", "capset b b", "EFAULT EINVAL EPERM"),
    ("A18", opened("/proc/sys/kernel/core_pattern", 2), CLOSED),
    ("A19", "unshare 0x12020000", OUT),
    ("A19", "mount s:x s:/mnt s:cgroup 0 s:memory", OUT),
    ("A21", "mkdir s:/sys/fs/cgroup/x 0x1ff", "EROFS EACCES"),
    ("A21", opened("/sys/fs/cgroup/../../../../sys/fs/cgroup/cgroup.procs", 1), CLOSED),
    ("A26", "pidfd_open 1 0; setns r 0x7e020000", OUT),
    ("A26", "openat -100 s:/proc/1/ns/user 0; setns r 0", "EPERM"),
    ("A26", opened("/proc/1/root/etc/passwd", 0), CLOSED),
    ("A25", "ioctl 1 0xffffffff00005412 b", OUT),
]


def numbers(abi):
    """System call numbers by name: `64` or `32`."""
    path = f"/usr/include/x86_64-linux-gnu/asm/unistd_{abi}.h"
    found = re.findall(r"#define __NR_(\w+) (\d+)", open(path).read())
    return {name: int(number) for name, number in found}


def translate(calls, table):
    """Names to numbers; None where `table` lacks one."""
    translated = []
    for call in calls.split(";"):
        name, *arguments = call.split()
        number = name if name.isdigit() else table.get(name)
        if number is None:
            return None
        translated.append(" ".join([str(number), *arguments]))
    return "; ".join(translated)


def expected_of(expected, profile, user):
    if isinstance(expected, str):
        return expected.split()
    for key in (profile, "root" if user == "0" else "user", "*"):
        if key in expected:
            return expected[key].split()
    raise KeyError(user)
