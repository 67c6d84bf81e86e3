"""What counts as left behind by a test run, and what is other people's."""
import unittest

from leaks import BPF, FIRST_ID, IDS, SETTLE_SECONDS, SHOWN, Run, Thing, Watch, listing, new, snapshot

RUN = Run("sandboxd-abc", FIRST_ID + 3 * IDS)
OTHER_DAEMON = Thing("process", "sandboxd[7]", "sandboxd --config /tmp/sandboxd-xyz/config.toml")


def left(*after, before=()):
    return new(snapshot(RUN, before), snapshot(RUN, after))


class Leaks(unittest.TestCase):
    def test_a_new_thing_with_the_mark_is_named(self):
        for thing in (Thing("cgroup", "/sys/fs/cgroup/sandboxd-abc-1"),
                      Thing("process", "sh[5]", "sh 0::/sandboxd-abc-1/x/box/exec-1"),
                      Thing("mount", "/x (tmpfs)", "1 2 0:3 / /x - tmpfs upperdir=/tmp/sandboxd-abc/u"),
                      Thing("file", "/dev/shm/sandboxd-abc-2"),
                      Thing("socket", "@sandboxd-abc-2 (inode 4)"),
                      Thing(BPF, "cgroup device filter 4", "/sys/fs/cgroup/sandboxd-abc-1")):
            self.assertEqual(left(OTHER_DAEMON, thing), [str(thing)])

    def test_a_new_thing_of_an_id_of_the_run_is_named(self):
        for id, count in ((RUN.first_id - 1, 0), (RUN.first_id, 1), (RUN.first_id + IDS - 1, 1),
                          (RUN.first_id + IDS, 0)):
            self.assertEqual(len(left(OTHER_DAEMON, Thing("SysV shm", "4", ids=(0, id)))), count, id)

    def test_what_was_there_before_is_not_new_even_if_it_changes(self):
        before = Thing("process", "sandboxd[5]", "sandboxd-abc", (0,))
        after = Thing("process", "sandboxd[5]", "sandboxd-abc", (1,))
        self.assertEqual(left(after, before=[before]), [])

    def test_what_looks_like_ours_counts_only_where_no_other_sandboxd_is(self):
        for thing in (Thing(BPF, "cgroup device filter 4"), Thing("link alias", "veth1 sandboxd"),
                      Thing("owner of keys", "1879048192", ids=(1879048192,))):
            self.assertEqual(left(thing), [str(thing)])
            self.assertEqual(left(thing, OTHER_DAEMON), [])
            self.assertEqual(left(thing, before=[OTHER_DAEMON]), [])
            self.assertEqual(left(thing, before=[thing]), [])

    def test_what_is_anybodys_never_counts(self):
        for thing in (Thing("process", "make[5]", "make all"), Thing("link", "veth0 in net:[1]"),
                      Thing(BPF, "cgroup device filter 4", "/sys/fs/cgroup/system.slice"),
                      Thing("SysV sem", "1 key 0", ids=(0, 1000)), OTHER_DAEMON):
            self.assertEqual(left(thing), [], thing)

    def test_a_long_list_is_cut_and_says_so(self):
        lines = listing(list(map(str, range(SHOWN + 5)))).splitlines()
        self.assertEqual((len(lines), lines[-1]), (SHOWN + 1, "+ and 5 more"))


class Settling(unittest.TestCase):
    def setUp(self):
        self.now, self.things = 0, []
        self.watch = Watch(RUN, lambda: self.things, lambda: self.now, self.sleep)

    def sleep(self, seconds):
        self.now += seconds
        self.things = [thing for thing in self.things if self.now < int(thing.about)]

    def test_what_goes_away_in_time_is_waited_for(self):
        self.things = [Thing("file", "/tmp/sandboxd-abc-1", "3")]
        self.assertEqual(self.watch.settle(), [])
        self.assertLess(self.now, 4)

    def test_what_stays_is_reported_once_after_a_bounded_time(self):
        self.things = [Thing("file", "/tmp/sandboxd-abc-1", "1000")]
        self.assertEqual(self.watch.settle(), ["file: /tmp/sandboxd-abc-1"])
        self.assertLess(self.now, SETTLE_SECONDS + 1)
        self.assertEqual(self.watch.settle(), [])


if __name__ == "__main__":
    unittest.main()
