//! A real SLURM cluster of one machine, in a folder of its own: munged, slurmctld and slurmd on loopback, and where it keeps
//! accounts slurmdbd with a MariaDB server.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A running cluster; its processes end with it.
pub struct Cluster {
    dir: TempDir,
    munged: Option<Child>,
    database: Option<Child>,
    accounts: Option<Child>,
    controller: Option<Child>,
    node: Option<Child>,
    /// Whether tasks that use more memory than they asked for are killed, and counted as such.
    pub limits_memory: bool,
}

/// Where the kernel keeps control groups of memory that a node may make its own in: as root, and not in most containers.
const GROUPS: &str = "/sys/fs/cgroup/memory";

fn may_limit_memory() -> bool {
    let group = Path::new(GROUPS).join(format!("iclab-test-{}", std::process::id()));
    std::fs::create_dir(&group).and_then(|()| std::fs::remove_dir(&group)).is_ok()
}

/// Programs that a cluster needs, the last four where it keeps accounts.
const PROGRAMS: [&str; 11] = [
    "munged",
    "slurmctld",
    "slurmd",
    "sbatch",
    "squeue",
    "scontrol",
    "scancel",
    "mariadbd",
    "slurmdbd",
    "sacctmgr",
    "sacct",
];

/// Where a program is; daemons are often kept out of the usual path.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn name_of(flag: &str) -> String {
    let output = Command::new("id").arg(flag).output().expect("id runs");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The first program that is missing.
pub fn missing() -> Option<&'static str> {
    PROGRAMS.into_iter().find(|name| find(name).is_none())
}

impl Cluster {
    /// Starts a cluster of one node with two processors that keeps no accounts, and waits until it takes jobs.
    pub fn start() -> Cluster {
        let mut cluster = Cluster::prepare(
            "KillWait=20\nJobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n",
        );
        cluster.start_controller(&[]);
        cluster.go();
        cluster
    }

    /// Starts a cluster that keeps accounts and takes arrays of so many tasks.
    pub fn accounted(largest: usize) -> Cluster {
        let (at_accounts, at_database) = (free_port(), free_port());
        let mut cluster = Cluster::prepare(&format!(
            "KillWait=2\nMaxArraySize={largest}\nJobAcctGatherType=jobacct_gather/linux\n\
             JobAcctGatherFrequency=task=1\nAccountingStorageType=accounting_storage/slurmdbd\n\
             AccountingStorageHost=127.0.0.1\nAccountingStoragePort={at_accounts}\nAccountingStorageEnforce=limits\n\
             PreemptType=preempt/partition_prio\nPreemptMode=CANCEL\n\
             PartitionName=urgent Nodes=node1 PriorityTier=2 MaxTime=INFINITE State=UP\n"
        ));
        if may_limit_memory() {
            cluster.limit_memory();
        }
        cluster.start_accounts(at_accounts, at_database);
        cluster.start_controller(&[]);
        cluster.go();
        cluster
    }

    /// Lets every task have the memory that it asks for, and no more.
    fn limit_memory(&mut self) {
        let conf = std::fs::read_to_string(self.conf()).unwrap();
        let conf = conf
            .replace("task/none", "task/cgroup")
            .replace("=CR_CPU\n", "=CR_CPU_Memory\nDefMemPerCPU=400\n");
        std::fs::write(self.conf(), conf.replace("CPUs=2", "CPUs=2 RealMemory=1000")).unwrap();
        let groups = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nConstrainRAMSpace=yes\nMinRAMSpace=1\n";
        std::fs::write(self.dir.path().join("cgroup.conf"), groups).unwrap();
        self.limits_memory = true;
    }

    /// Lets the time of a task be over. The controller looks every half minute.
    pub fn end_time_of(&self, id: &str) {
        self.say("scontrol", &["update", &format!("JobId={id}"), "EndTime=now"]);
    }

    /// Takes the places of all tasks but urgent ones, for two seconds or four: a task on each processor, or both on one.
    pub fn preempt(&self) {
        let job =
            ["--partition=urgent", "--account=lab", "--array=0-1", "--output=/dev/null", "--wrap=sleep 2"];
        assert!(self.try_say("sbatch", &job).is_some(), "{}", logs(self.dir.path()));
    }

    /// Writes the files of a cluster and starts munged.
    fn prepare(more: &str) -> Cluster {
        let dir = TempDir::new().unwrap();
        let root = dir.path().to_path_buf();
        let mut cluster = Cluster {
            dir,
            munged: None,
            database: None,
            accounts: None,
            controller: None,
            node: None,
            limits_memory: false,
        };
        for folder in ["state", "spool", "munge", "data"] {
            std::fs::create_dir(root.join(folder)).unwrap();
        }
        std::fs::set_permissions(root.join("munge"), std::fs::Permissions::from_mode(0o700)).unwrap();
        let key = root.join("munge/key");
        let secret: Vec<u8> = (0..128).map(|i| (i * 37 + std::process::id() as usize) as u8).collect();
        std::fs::write(&key, secret).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o400)).unwrap();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_string();
        let (user, at) = (name_of("-un"), root.display());
        let (first, second) = (free_port(), free_port());
        // With accounts, the socket of munge stands where other ways to prove who one is have their password.
        let conf = format!(
            "ClusterName=iclab\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser={user}\nSlurmdUser={user}\n\
             AuthType=auth/munge\nAuthInfo=socket={at}/munge/socket\nCredType=cred/munge\n\
             AccountingStoragePass={at}/munge/socket\n\
             SlurmctldPort={first}\nSlurmdPort={second}\nStateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool\n\
             SlurmctldPidFile={at}/slurmctld.pid\nSlurmdPidFile={at}/slurmd.pid\n\
             SlurmctldLogFile={at}/slurmctld.log\nSlurmdLogFile={at}/slurmd.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_CPU\nSchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0\n\
             ReturnToService=2\nMpiDefault=none\nSwitchType=switch/none\n{more}\
             NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN\n\
             PartitionName=main Nodes=node1 Default=YES MaxTime=INFINITE State=UP\n"
        );
        std::fs::write(root.join("slurm.conf"), conf).unwrap();
        let arguments = ["socket", "key-file", "pid-file", "log-file", "seed-file"]
            .map(|name| format!("--{name}={at}/munge/{}", name.trim_end_matches("-file")));
        // A folder under /tmp is open to others above it, which munged dislikes; nothing of worth is kept here.
        let mut munged = vec!["--foreground", "--force"];
        munged.extend(arguments.iter().map(String::as_str));
        cluster.munged = Some(cluster.spawn("munged", &munged));
        cluster.wait("munged", |cluster| cluster.dir.path().join("munge/socket").exists());
        cluster
    }

    /// Starts a MariaDB server on an empty folder, and slurmdbd with it.
    fn start_accounts(&mut self, port: u16, database: u16) {
        let (at, user) = (self.dir.path().display().to_string(), name_of("-un"));
        // Small, and as careless as a database may be that lives for half a minute.
        let options = [
            "--no-defaults".to_string(),
            format!("--user={user}"),
            format!("--datadir={at}/data"),
            "--innodb-log-file-size=8M".into(),
            "--innodb-buffer-pool-size=32M".into(),
            "--innodb-flush-log-at-trx-commit=0".into(),
        ];
        self.fill_database(&options);
        let place = [
            format!("--socket={at}/database"),
            format!("--pid-file={at}/database.pid"),
            format!("--port={database}"),
            "--bind-address=127.0.0.1".into(),
            "--skip-grant-tables".into(), // nobody has a password, so that none is needed
        ];
        let arguments: Vec<&str> = options.iter().chain(&place).map(String::as_str).collect();
        self.database = Some(self.spawn("mariadbd", &arguments));
        self.wait("MariaDB", |cluster| cluster.dir.path().join("database").exists());
        let conf = format!(
            "AuthType=auth/munge\nAuthInfo=socket={at}/munge/socket\nDbdHost=localhost\nDbdAddr=127.0.0.1\n\
             DbdPort={port}\nSlurmUser={user}\nStorageType=accounting_storage/mysql\nStorageHost=127.0.0.1\n\
             StoragePort={database}\nStorageUser={user}\nStorageLoc=accounts\nPidFile={at}/slurmdbd.pid\n\
             LogFile={at}/slurmdbd.log\n"
        );
        let path = self.dir.path().join("slurmdbd.conf");
        std::fs::write(&path, conf).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        self.accounts = Some(self.spawn("slurmdbd", &["-D"]));
        // sacctmgr is slow to give up, so nobody asks it before somebody listens.
        self.wait("slurmdbd", |_| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        self.wait("a cluster in the accounts", |cluster| {
            cluster.try_say("sacctmgr", &["--immediate", "add", "cluster", "iclab"]).is_some()
        });
        self.say("sacctmgr", &["--immediate", "add", "account", "lab"]);
        self.say("sacctmgr", &["--immediate", "add", "user", &user, "account=lab"]);
    }

    /// The tables that MariaDB itself needs. Its own script for that is in a package that would start a server.
    fn fill_database(&self, options: &[String]) {
        let names = [
            "mysql/mysql_system_tables.sql",
            "mysql/mariadb_system_tables.sql",
            "mariadb/mariadb_system_tables.sql",
        ];
        let files = names.map(|name| Path::new("/usr/share").join(name));
        let file = files.iter().find(|file| file.is_file()).expect("MariaDB comes with its tables");
        let script = self.dir.path().join("tables.sql");
        let tables = std::fs::read_to_string(file).unwrap();
        std::fs::write(&script, format!("create database mysql;\nuse mysql;\n{tables}")).unwrap();
        let mut command = Command::new(find("mariadbd").unwrap());
        let output =
            command.args(options).arg("--bootstrap").stdin(std::fs::File::open(script).unwrap()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Lets the user have so many tasks in the queue, or any number.
    pub fn let_submit(&self, tasks: Option<usize>) {
        let limit = tasks.map_or("-1".into(), |tasks| tasks.to_string());
        let (user, limit) = (name_of("-un"), format!("MaxSubmitJobs={limit}"));
        self.say("sacctmgr", &["--immediate", "modify", "user", &user, "set", &limit]);
    }

    fn go(&mut self) {
        self.start_node();
        self.wait("an idle node", |cluster| cluster.say("sinfo", &["-h", "-o", "%T"]).trim() == "idle");
    }

    fn spawn(&self, name: &str, arguments: &[&str]) -> Child {
        let log = std::fs::File::create(self.dir.path().join(format!("{name}.out"))).unwrap();
        let mut command = Command::new(find(name).unwrap());
        command.args(arguments).env("SLURM_CONF", self.conf()).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
    }

    fn start_controller(&mut self, more: &[&str]) {
        self.controller = Some(self.spawn("slurmctld", &[&["-D"], more].concat()));
    }

    /// Starts the daemon of the node.
    pub fn start_node(&mut self) {
        self.node = Some(self.spawn("slurmd", &["-D", "-N", "node1"]));
    }

    /// Stops the daemon of the node; its tasks live on.
    pub fn stop_node(&mut self) {
        stop(&mut self.node);
    }

    /// Restarts the controller without anything that it knew.
    pub fn forget(&mut self) {
        stop(&mut self.controller);
        self.start_controller(&["-c"]);
        self.wait("a controller", |cluster| cluster.try_say("sinfo", &["-h"]).is_some());
    }

    /// The file that tells programs of SLURM where their cluster is.
    pub fn conf(&self) -> PathBuf {
        self.dir.path().join("slurm.conf")
    }

    fn try_say(&self, name: &str, arguments: &[&str]) -> Option<String> {
        let output =
            Command::new(find(name)?).args(arguments).env("SLURM_CONF", self.conf()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// What a program of SLURM says; nothing where it fails, which a busy controller sometimes does.
    pub fn say(&self, name: &str, arguments: &[&str]) -> String {
        self.try_say(name, arguments).unwrap_or_default()
    }

    /// Tasks in the queue: (`12_3`, state).
    pub fn tasks(&self) -> Vec<(String, String)> {
        let text = self.say("squeue", &["-h", "-r", "-o", "%i %T"]);
        text.lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(id, state)| (id.into(), state.into()))
            .collect()
    }

    /// Lets requeued tasks begin at once; SLURM lets them wait for two minutes.
    pub fn hurry(&self) {
        for line in self.say("squeue", &["-h", "-r", "-t", "PENDING", "-o", "%i %r"]).lines() {
            if let Some((id, "BeginTime")) = line.split_once(' ') {
                self.say("scontrol", &["update", &format!("JobId={id}"), "StartTime=now"]);
            }
        }
    }

    /// Waits until something is so.
    pub fn wait(&self, what: &str, ready: impl Fn(&Cluster) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(180);
        while !ready(self) {
            if Instant::now() > deadline {
                panic!("{what}: not within three minutes\n{:?}\n{}", self.tasks(), logs(self.dir.path()));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// The last lines of the daemons' logs, for a person who must find out what went wrong.
fn logs(dir: &Path) -> String {
    let names = ["munged", "mariadbd", "slurmdbd", "slurmctld", "slurmd"].map(|name| format!("{name}.out"));
    let logs = ["slurmdbd", "slurmctld", "slurmd"].map(|name| format!("{name}.log"));
    let tail = |name: &String| {
        format!("{name}:\n  {}\n", lab::networks::runs::last_lines(&dir.join(name), 8).join("\n  "))
    };
    names.iter().chain(&logs).map(tail).collect()
}

fn stop(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
        for _ in 0..100 {
            if child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Tasks outlive the daemons, so they go first.
        for (id, _) in self.tasks() {
            self.say("scancel", &["--signal=KILL", "--full", &id]);
            self.say("scancel", &[&id]);
        }
        for _ in 0..50 {
            if self.tasks().is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        // The controller tells the accounts what is left to tell, and they the database.
        let daemons =
            [&mut self.node, &mut self.controller, &mut self.accounts, &mut self.database, &mut self.munged];
        daemons.into_iter().for_each(stop);
        if self.limits_memory {
            let _ = std::fs::remove_dir(Path::new(GROUPS).join("slurm_node1"));
        }
    }
}
