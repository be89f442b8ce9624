//! How much memory can still be had.

use std::path::{Path, PathBuf};

/// Bytes that the machine, or the control group that we are in, can still give; nothing where that cannot be known.
pub fn available() -> Option<usize> {
    available_under(Path::new("/"))
}

/// The same for a system whose files are in a folder.
fn available_under(root: &Path) -> Option<usize> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    let meminfo = read("proc/meminfo")?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let machine = line.trim().trim_end_matches("kB").trim().parse::<usize>().ok()?.checked_mul(1024)?;
    let groups = read("proc/self/cgroup").unwrap_or_default();
    let places = Place::BOTH.iter().flat_map(|place| place.folders(&groups).into_iter().map(move |folder| (place, folder)));
    let left = places.filter_map(|(place, folder)| place.left_in(&root.join(folder)));
    Some(left.fold(machine, usize::min))
}

/// Where one version of control groups has its files.
struct Place {
    folder: &'static str,
    limit: &'static str,
    used: &'static str,
    /// What of that can be taken back at once: files that were read, and not lately.
    files: &'static str,
    /// The controllers of our group's line in `/proc/self/cgroup`.
    controller: &'static str,
}

impl Place {
    const BOTH: [Place; 2] = [
        Place { folder: "sys/fs/cgroup", limit: "memory.max", used: "memory.current", files: "inactive_file", controller: "" },
        Place {
            folder: "sys/fs/cgroup/memory",
            limit: "memory.limit_in_bytes",
            used: "memory.usage_in_bytes",
            files: "total_inactive_file",
            controller: "memory",
        },
    ];

    /// The folders of our group and of those that it is in, whose limits hold as well. In a container the outermost that is to be
    /// seen is often our own.
    fn folders(&self, groups: &str) -> Vec<PathBuf> {
        let outermost = Path::new(self.folder);
        let ours = groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let has_it = parts.next()?.split(',').any(|controller| controller == self.controller);
            parts.next().filter(|_| has_it)
        });
        let inside = Path::new(ours.unwrap_or("/").trim_start_matches('/'));
        inside.ancestors().map(|group| outermost.join(group)).collect()
    }

    /// What a group can still give; nothing where there is no limit.
    fn left_in(&self, folder: &Path) -> Option<usize> {
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
        let number = |name: &str| read(name)?.trim().parse::<usize>().ok();
        let (limit, used) = (number(self.limit)?, number(self.used)?);
        let stat = read("memory.stat").unwrap_or_default();
        let files = stat.lines().find_map(|line| line.strip_prefix(self.files)?.trim().parse().ok()).unwrap_or(0);
        Some(limit.saturating_sub(used.saturating_sub(files)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with these files, which is removed in the end.
    struct Root(PathBuf);

    impl Root {
        fn with(name: &str, files: &[(&str, &str)]) -> Root {
            let root = std::env::temp_dir().join(format!("webnn-available-{}-{name}", std::process::id()));
            for (path, text) in [("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n")].iter().chain(files) {
                let path = root.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Root(root)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn limits_of_both_versions_are_read() {
        let no_limit = "9223372036854771712\n";
        type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], usize);
        let cases: [Case<'_>; 6] = [
            ("none", &[], 8000 << 10),
            ("second", &[("sys/fs/cgroup/memory.max", "5000\n"), ("sys/fs/cgroup/memory.current", "3000\n")], 2000),
            ("no limit", &[("sys/fs/cgroup/memory.max", "max\n"), ("sys/fs/cgroup/memory.current", "3000\n")], 8000 << 10),
            (
                "first",
                &[
                    ("sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n"),
                    ("sys/fs/cgroup/memory/memory.usage_in_bytes", "4000\n"),
                    ("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 600\n"),
                ],
                1600,
            ),
            (
                "of a group in another",
                &[
                    ("proc/self/cgroup", "12:cpu,cpuacct:/x\n9:memory:/outer/inner\n0::/\n"),
                    ("sys/fs/cgroup/memory/memory.limit_in_bytes", no_limit),
                    ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n"),
                    ("sys/fs/cgroup/memory/outer/memory.limit_in_bytes", "7000\n"),
                    ("sys/fs/cgroup/memory/outer/memory.usage_in_bytes", "6500\n"),
                    ("sys/fs/cgroup/memory/outer/inner/memory.limit_in_bytes", "6000\n"),
                    ("sys/fs/cgroup/memory/outer/inner/memory.usage_in_bytes", "100\n"),
                ],
                500,
            ),
            (
                "of the second version's group",
                &[
                    ("proc/self/cgroup", "0::/job\n"),
                    ("sys/fs/cgroup/job/memory.max", "6000\n"),
                    ("sys/fs/cgroup/job/memory.current", "7000\n"),
                    ("sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file 1500\n"),
                ],
                500,
            ),
        ];
        for (name, files, expected) in cases {
            assert_eq!(available_under(&Root::with(name, files).0), Some(expected), "{name}");
        }
        assert_eq!(available_under(Path::new("/nowhere/at/all")), None);
    }
}
