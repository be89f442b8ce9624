//! How many cores this process may use: one number, which all contexts and all threads of script share.
//!
//! It is the least of what the system allows: the affinity of the thread that asks first, the cpusets of the control groups that the process
//! is in, and their quotas of time, in whole cores. `WEBNN_NUM_THREADS` overrides all of them.

use crate::error::{Error, Kind, Result};
#[cfg(any(target_os = "linux", test))]
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const VARIABLE: &str = "WEBNN_NUM_THREADS";
const MOST: usize = 4096;

/// What the process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    pub count: usize,
    /// The environment says so: nobody is to use more.
    pub is_limit: bool,
}

/// The cores of this process. They are counted once.
///
/// # Errors
/// `NotSupportedError` when `WEBNN_NUM_THREADS` is no number of threads.
pub fn of_process() -> Result<Cores> {
    static CORES: OnceLock<Result<Cores>> = OnceLock::new();
    CORES.get_or_init(|| chosen(std::env::var(VARIABLE).ok().as_deref(), of_system)).clone()
}

/// The same for those who only wait and look.
pub fn count() -> usize {
    of_process().map_or_else(|_| of_system(), |cores| cores.count)
}

fn chosen(variable: Option<&str>, of_system: impl FnOnce() -> usize) -> Result<Cores> {
    let Some(text) = variable.map(str::trim).filter(|text| !text.is_empty()) else {
        return Ok(Cores { count: of_system(), is_limit: false });
    };
    match text.parse() {
        Ok(count @ 1..=MOST) => Ok(Cores { count, is_limit: true }),
        _ => {
            let message = format!("{VARIABLE}: found '{text}', allowed a whole number from 1 to {MOST}");
            Err(Error::new(Kind::NotSupported, message))
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn of_system() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get())
}

#[cfg(target_os = "linux")]
fn of_system() -> usize {
    let allowed = rustix::thread::sched_getaffinity(None).map(|set| set.count() as usize);
    let allowed = allowed.or_else(|_| std::thread::available_parallelism().map(|count| count.get())).unwrap_or(1);
    allowed.min(of_groups(Path::new("/"))).max(1)
}

/// What the control groups of the process allow, by the files of a system. Groups that cannot be read allow everything.
#[cfg(any(target_os = "linux", test))]
fn of_groups(root: &Path) -> usize {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let (groups, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
    groups.lines().filter_map(|line| Group::find(root, line, &mounts)).map(|group| group.cores()).min().unwrap_or(usize::MAX)
}

/// A control group, and those that it is in.
#[cfg(any(target_os = "linux", test))]
struct Group {
    /// Where the hierarchy is mounted.
    top: PathBuf,
    path: PathBuf,
    is_second_version: bool,
}

#[cfg(any(target_os = "linux", test))]
impl Group {
    /// By a line of `/proc/self/cgroup`: the number of the hierarchy, its controllers, and the path of the group. The second version's has no
    /// controllers.
    fn find(root: &Path, line: &str, mounts: &str) -> Option<Group> {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let is_second_version = controllers.is_empty();
        let has_one = |options: &str| controllers.split(',').any(|one| options.split(',').any(|option| option == one));
        let is_wanted = |kind: &str, options: &str| {
            if is_second_version { kind == "cgroup2" } else { kind == "cgroup" && has_one(options) }
        };
        mounts.lines().find_map(|mount| {
            // "… root point options … - kind source options"
            let (left, right) = mount.split_once(" - ")?;
            let (left, right): (Vec<_>, Vec<_>) = (left.split(' ').collect(), right.split(' ').collect());
            let (mounted, point) = (left.get(3)?, left.get(4)?.replace("\\040", " "));
            if !is_wanted(right.first()?, right.get(2)?) {
                return None;
            }
            let top = root.join(point.trim_start_matches('/'));
            // In a container the path may be the host's, and what is mounted the container's own group.
            let below = Path::new(path).strip_prefix(mounted).ok().filter(|below| top.join(below).is_dir());
            let path = top.join(below.unwrap_or(Path::new("")));
            Some(Group { top, path, is_second_version })
        })
    }

    fn cores(&self) -> usize {
        let groups = self.path.ancestors().take_while(|path| path.starts_with(&self.top));
        groups.flat_map(|path| [self.quota(path), self.set(path)]).flatten().min().unwrap_or(usize::MAX)
    }

    /// Whole cores: of threads that use up a quota all stand still together until its period is over.
    fn quota(&self, group: &Path) -> Option<usize> {
        let read = |name: &str| std::fs::read_to_string(group.join(name)).ok();
        let (quota, period) = if self.is_second_version {
            let text = read("cpu.max")?;
            let mut parts = text.split_whitespace();
            (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?)
        } else {
            // A quota of -1 is none.
            (read("cpu.cfs_quota_us")?.trim().parse().ok()?, read("cpu.cfs_period_us")?.trim().parse().ok()?)
        };
        let (quota, period): (u64, u64) = (quota, period);
        Some(usize::try_from(quota.checked_div(period)?).unwrap_or(usize::MAX).max(1))
    }

    fn set(&self, group: &Path) -> Option<usize> {
        let names = if self.is_second_version {
            ["cpuset.cpus.effective", "cpuset.cpus"]
        } else {
            ["cpuset.effective_cpus", "cpuset.cpus"]
        };
        names.iter().find_map(|name| count_of_list(&std::fs::read_to_string(group.join(name)).ok()?))
    }
}

/// Of a list such as "0-3,8": how many it has, and nothing for an empty one.
#[cfg(any(target_os = "linux", test))]
fn count_of_list(list: &str) -> Option<usize> {
    let mut count = 0usize;
    for range in list.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    (count > 0).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_overrides_the_system() {
        let of = |text: Option<&str>| chosen(text, || 6);
        assert_eq!(of(None).unwrap(), Cores { count: 6, is_limit: false });
        assert_eq!(of(Some(" ")).unwrap(), Cores { count: 6, is_limit: false });
        assert_eq!(of(Some(" 9 ")).unwrap(), Cores { count: 9, is_limit: true });
        for wrong in ["0", "-1", "two", "2.5", "4097"] {
            let error = of(Some(wrong)).unwrap_err();
            let expected = format!("WEBNN_NUM_THREADS: found '{wrong}', allowed a whole number from 1 to 4096");
            assert_eq!((error.kind(), error.message()), (Kind::NotSupported, &*expected));
        }
    }

    #[test]
    fn what_is_counted_is_no_more_than_the_affinity() {
        let all = std::thread::available_parallelism().unwrap().get();
        assert!((1..=all).contains(&of_system()));
        #[cfg(target_os = "linux")]
        std::thread::spawn(|| {
            let allowed = rustix::thread::sched_getaffinity(None).unwrap();
            let mut one = rustix::thread::CpuSet::new();
            one.set((0..rustix::thread::CpuSet::MAX_CPU).find(|&core| allowed.is_set(core)).unwrap());
            rustix::thread::sched_setaffinity(None, &one).unwrap();
            assert_eq!(of_system(), 1);
        })
        .join()
        .unwrap();
    }

    /// A system with these files.
    fn system(name: &str, files: &[(&str, &str)]) -> usize {
        let root = std::env::temp_dir().join(format!("webnn-cores-{}-{name}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let cores = of_groups(&root);
        let _ = std::fs::remove_dir_all(root);
        cores
    }

    const SECOND: (&str, &str) = (
        "proc/self/mountinfo",
        "25 1 0:22 / /proc rw - proc proc rw\n30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
    );
    const FIRST: (&str, &str) = (
        "proc/self/mountinfo",
        "31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
         32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
         33 30 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n",
    );

    #[test]
    fn a_quota_of_the_second_version() {
        let of = |name, max| system(name, &[SECOND, ("proc/self/cgroup", "0::/a/b\n"), ("sys/fs/cgroup/a/b/cpu.max", max)]);
        assert_eq!(of("three", "300000 100000\n"), 3);
        assert_eq!(of("whole", "399999 100000\n"), 3);
        assert_eq!(of("half", "50000 100000\n"), 1);
        assert_eq!(of("none", "max 100000\n"), usize::MAX);
        assert_eq!(of("nonsense", "1 0\n"), usize::MAX);
        // The least of the group and those that it is in.
        let above = [
            SECOND,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "800000 100000\n"),
            ("sys/fs/cgroup/a/cpu.max", "200000 100000\n"),
            ("sys/fs/cgroup/cpu.max", "400000 100000\n"),
        ];
        assert_eq!(system("above", &above), 2);
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_top() {
        let files = [SECOND, ("proc/self/cgroup", "0::/docker/host/path\n"), ("sys/fs/cgroup/cpu.max", "500000 100000\n")];
        assert_eq!(system("container", &files), 5);
        let mounts = "32 30 0:28 /docker/id /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n";
        let files = [
            ("proc/self/mountinfo", mounts),
            ("proc/self/cgroup", "4:cpu:/docker/id\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "700000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(system("container of the first", &files), 7);
    }

    #[test]
    fn a_quota_of_the_first_version() {
        let of = |name, quota| {
            let files = [
                FIRST,
                ("proc/self/cgroup", "5:memory:/m\n4:cpu,cpuacct:/a\n3:cpuset:/\n1:name=systemd:/\n"),
                ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", quota),
                ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "50000\n"),
            ];
            system(name, &files)
        };
        assert_eq!(of("first four", "200000\n"), 4);
        assert_eq!(of("first none", "-1\n"), usize::MAX);
    }

    #[test]
    fn sets_of_both_versions() {
        let files = [SECOND, ("proc/self/cgroup", "0::/a\n"), ("sys/fs/cgroup/a/cpuset.cpus.effective", "0-2,8\n")];
        assert_eq!(system("set", &files), 4);
        let files = [FIRST, ("proc/self/cgroup", "3:cpuset:/a\n"), ("sys/fs/cgroup/cpuset/a/cpuset.cpus", "1,3\n")];
        assert_eq!(system("first set", &files), 2);
        let files = [SECOND, ("proc/self/cgroup", "0::/a\n"), ("sys/fs/cgroup/a/cpuset.cpus.effective", "\n")];
        assert_eq!(system("empty set", &files), usize::MAX);
    }

    #[test]
    fn lists_of_cores() {
        assert_eq!(["0", "0-3", "0-1,4-5,9", "", "x", "3-1"].map(count_of_list), [Some(1), Some(4), Some(5), None, None, None]);
    }
}
