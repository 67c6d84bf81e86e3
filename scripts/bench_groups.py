"""What scripts/bench measures, group by group."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

GIB = 1 << 30
MILLION = 1_000_000
IDLE = 500    # Sandboxes whose memory is measured.
CROWD = 1000  # Sandboxes alive beside the measured one.


class Lab:
    """Where the binaries are, the common root, the peers' bundles, and private daemons."""

    def __init__(self, root, quick):
        self.bin = pathlib.Path(os.environ.get("SANDBOXD_BIN", root / "build/release/bin"))
        self.quick = quick
        sys.path.insert(0, str(root / "tests/integration"))
        os.environ["SANDBOXD_BIN"] = str(self.bin)
        # On a tmpfs, as /run is where a daemon is installed.
        tempfile.tempdir = "/dev/shm"
        import harness
        self.harness = harness

    def samples(self, full, quick):
        return quick if self.quick else full

    def daemon(self, pool=4, **options):
        daemon = self.harness.Daemon(pool=pool, **options)
        self.root = f"{daemon.images}/busybox"
        make_root(self.root)
        return daemon

    def alternate(self, rows, samples, pause_us=3000, warmup=5):
        """{row: {part: [microseconds]}}; every row's samples are taken in turn."""
        job = {"samples": samples, "warmup": warmup, "pause_us": pause_us, "rows": rows}
        return self.run(job)

    def pure_v2(self, argv):
        """The command where runc and crun see nothing but cgroup2 on /sys/fs/cgroup, as they want;
        that mount is nobody else's."""
        mount = self.harness.CGROUP_MOUNT
        hide = f"mount --bind {mount} /sys/fs/cgroup &&" if mount != "/sys/fs/cgroup" else ""
        return ["unshare", "-m", "sh", "-c", f'{hide} exec "$0" "$@"', *argv]

    def run(self, job):
        done = subprocess.run(self.pure_v2([self.bin / "sandboxd_bench"]),
                              input=json.dumps(job).encode(), stdout=subprocess.PIPE)
        if done.returncode != 0:
            sys.exit("scripts/bench: the measurement failed, see above")
        return json.loads(done.stdout)


def make_root(path):
    os.makedirs(f"{path}/bin")
    for name in ("proc", "dev", "sys", "tmp", "etc", "usr"):
        os.mkdir(f"{path}/{name}")
    shutil.copy("/bin/busybox", f"{path}/bin/busybox")
    for name in ("true", "sh", "head", "dd", "cat", "sleep"):
        os.symlink("busybox", f"{path}/bin/{name}")


def cycle(daemon, root, name):
    return {"name": name, "kind": "cycle", "socket": daemon.socket, "create": {"image": root},
            "argv": ["/bin/true"]}


def bundle(root, path, argv):
    """An OCI bundle as `runc spec` makes it, for runc and crun."""
    os.mkdir(path)
    subprocess.run(["runc", "spec"], cwd=path, check=True)
    with open(f"{path}/config.json") as file:
        config = json.load(file)
    config["process"].update(terminal=False, args=argv)
    config["process"].pop("rlimits", None)
    config["root"] = {"path": root, "readonly": False}
    with open(f"{path}/config.json", "w") as file:
        json.dump(config, file)
    return path


def peers(lab, root, path):
    run = bundle(root, f"{path}/bundle", ["/bin/true"])
    filter_file = f"{path}/filter"
    subprocess.run([lab.bin / "sandboxd_bench", "--write-filter", filter_file], check=True)
    bwrap = ["/usr/bin/bwrap", "--unshare-all", "--bind", root, "/", "--proc", "/proc", "--dev",
             "/dev"]
    equal = [*bwrap, "--unshare-user", "--uid", "0", "--gid", "0", "--tmpfs", "/tmp",
             "--new-session", "--die-with-parent", "--seccomp", "10"]
    crun = ["/usr/bin/crun", "--cgroup-manager=disabled", f"--root={path}/crun"]
    runc = ["/usr/sbin/runc", f"--root={path}/runc"]
    tail = ["--", "/bin/true"]
    return [{"name": "bwrap", "kind": "spawn", "argv": bwrap + tail},
            {"name": "bwrap_equal", "kind": "spawn", "argv": equal + tail,
             "files": {"10": filter_file}},
            {"name": "crun", "kind": "spawn", "argv": [*crun, "run", "-b", run, "bench"]},
            {"name": "runc", "kind": "spawn", "argv": [*runc, "run", "-b", run, "bench"]}]


def launch(lab):
    """The life of a sandbox, with and without a pool and as a whole process; and the peers'."""
    pool, cold = lab.daemon(), lab.daemon(pool=0)
    root = lab.root
    cold_root = root
    pool_root = f"{pool.images}/busybox"
    with tempfile.TemporaryDirectory() as path:
        cli = [str(lab.bin / "sandboxctl"), "--socket", pool.socket, "run", "--rm", "--image",
               pool_root, "--", "/bin/true"]
        rows = [cycle(pool, pool_root, "pool"), cycle(cold, cold_root, "cold"),
                {"name": "cli", "kind": "spawn", "argv": cli}, *peers(lab, root, path)]
        result = lab.alternate(rows, lab.samples(500, 100))
    stages = cold.json("create", "--image", cold_root, "-o", "json")["stages"]
    cold.close()
    pool.close()
    return {"times": result, "stages": stages}


def execs(lab):
    """true in a sandbox that runs already."""
    daemon = lab.daemon()
    sandbox = daemon.create("--image", lab.root)
    with tempfile.TemporaryDirectory() as path:
        sleeper = bundle(lab.root, f"{path}/bundle", ["/bin/sleep", "1000000"])
        crun = ["/usr/bin/crun", "--cgroup-manager=disabled", f"--root={path}/crun"]
        subprocess.run(lab.pure_v2([*crun, "run", "-d", "-b", sleeper, "bench"]), check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            result = lab.alternate([
                {"name": "sandboxd", "kind": "exec", "socket": daemon.socket, "sandbox": sandbox,
                 "argv": ["/bin/true"]},
                {"name": "host", "kind": "spawn", "argv": [f"{lab.root}/bin/true"]},
                {"name": "crun", "kind": "spawn", "argv": [*crun, "exec", "bench", "/bin/true"]},
            ], lab.samples(500, 100))
        finally:
            subprocess.run(lab.pure_v2([*crun, "delete", "--force", "bench"]), check=True)
    daemon.close()
    return {"times": result}


def stream(lab):
    """Standard output, in bulk and in drops."""
    daemon = lab.daemon()
    sandbox = daemon.create("--image", lab.root)
    gib = ["head", "-c", str(GIB), "/dev/zero"]
    drops = ["dd", "if=/dev/zero", "bs=1", f"count={MILLION}"]
    rows = []
    for name, argv, size in (("gib", gib, GIB), ("bytes", drops, MILLION)):
        rows.append({"name": f"sandboxd_{name}", "kind": "exec", "socket": daemon.socket,
                     "sandbox": sandbox, "argv": ["/bin/" + argv[0], *argv[1:]], "bytes": size})
        rows.append({"name": f"pipe_{name}", "kind": "pipe", "bytes": size,
                     "argv": [f"{lab.root}/bin/{argv[0]}", *argv[1:]]})
    before = memory_kib(daemon.process.pid)
    result = lab.alternate(rows, lab.samples(9, 3), warmup=1)
    growth = memory_kib(daemon.process.pid) - before
    daemon.close()
    return {"times": result, "figures": {"daemon_kib": growth}}


def sustained(lab):
    """Whole lives, one after the other from two connections, and what they leave behind."""
    daemon = lab.daemon()
    row = cycle(daemon, lab.root, "cycle")
    lab.run({"seconds": 2, "threads": 2, "rows": [row]})
    before = settled(daemon)
    seconds = lab.samples(60, 10)
    counts = lab.run({"seconds": seconds, "threads": 2, "rows": [row]})
    after = settled(daemon)
    daemon.close()
    return {"figures": {"per_second": sum(counts) / seconds, "slowest_second": min(counts),
                        "daemon_kib": after[0] - before[0], "left": after[1] - before[1]}}


def settled(daemon, limit=10):
    """(memory of the daemon in KiB, its descriptors and the control groups beneath it), once the
    pool is full again."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        pool = wire_call(daemon, "daemon.info")["pool"]
        if pool["ready"] == pool["size"]:
            break
        time.sleep(0.1)
    time.sleep(0.5)  # The last kill's group, the last box's slot.
    pid = daemon.process.pid
    groups = sum(1 for _ in os.walk(daemon.cgroup_path))
    return memory_kib(pid), len(os.listdir(f"/proc/{pid}/fd")) + groups


def memory_kib(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def available_kib():
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))


def memory(lab):
    """What 500 idle sandboxes take from the host's available memory."""
    daemon = lab.daemon()
    daemon.create("--image", lab.root)
    count = lab.samples(IDLE, 100)
    time.sleep(3)
    before = available_kib()
    fill(daemon, lab.root, count)
    time.sleep(3)
    used = before - available_kib()
    daemon.close()
    return {"figures": {"idle_mib": used / count / 1024}}


def fill(daemon, root, count):
    for _ in range(count):
        wire_call(daemon, "sandbox.create", image=root)


def wire_call(daemon, op, **params):
    import harness
    wire = harness.Wire(daemon.socket)
    _, body = wire.call(1, op, **params)
    wire.close()
    if "code" in body:
        sys.exit(f"scripts/bench: {op}: {body}")
    return body


def crowd(lab):
    """A create and a list among many."""
    daemon = lab.daemon()
    samples = lab.samples(300, 100)
    row = cycle(daemon, lab.root, "cycle")
    alive = 10
    fill(daemon, lab.root, alive)
    few = lab.alternate([row], samples)["cycle"]
    count = lab.samples(CROWD, 300)
    fill(daemon, lab.root, count - alive)
    many = lab.alternate([row], samples)["cycle"]
    rows = lab.alternate([{"name": "list", "kind": "list", "socket": daemon.socket, "rows": count}],
                         samples)["list"]
    daemon.close()
    return {"times": {"10_alive": few, "1000_alive": many, "list": rows},
            "figures": {"create_p95_10": percentile(few["create"], 0.95),
                        "create_p95_1000": percentile(many["create"], 0.95),
                        "list_ms": percentile(rows["total"], 0.5) / 1000}}


def layer(lab, name):
    """{with, without: {launch, exec: microseconds}}."""
    daemons = {"with": lab.daemon(), "without": lab.daemon(without=name)}
    rows = []
    for key, daemon in daemons.items():
        root = f"{daemon.images}/busybox"
        rows.append(cycle(daemon, root, f"{key}.launch"))
        rows.append({"name": f"{key}.exec", "kind": "exec", "socket": daemon.socket,
                     "sandbox": daemon.create("--image", root), "argv": ["/bin/true"]})
    result = lab.alternate(rows, lab.samples(500, 100))
    for daemon in daemons.values():
        daemon.close()
    return {key: percentile(parts["total"], 0.5) for key, parts in result.items()}


def percentile(values, fraction):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * fraction))]


GROUPS = {"launch": launch, "exec": execs, "stream": stream, "sustained": sustained,
          "memory": memory, "crowd": crowd}
