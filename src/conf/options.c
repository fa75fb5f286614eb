/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - the table of all options, and its fields' defaults. Parsing is in parse.c. */
#include "conf/options.h"

#include "conf/conf_internal.h"

#define F(field) offsetof(struct pd_options, field)
#define ALL (PD_LAUNCHER | PD_WORKER)

/* Sections in the order of the manual. `who` is PD_LAUNCHER for what only paddlectl needs. */
static const struct pd_option table[] = {
    {"cluster", "engine", PD_CHOICE, F(engine), PD_LAUNCHER, "ssh", 0, 0,
     "ssh|local|slurm|kubernetes|mpi", "",
     "where the nodes are. ssh: the hosts; local: this machine; slurm: the Slurm allocation; mpi: "
     "those of mpirun (Open MPI). An engine other than ssh sets hosts, connect and launch, if they "
     "are not given"},
    {"cluster", "hosts", PD_STR, F(hosts), PD_LAUNCHER, "", 0, 0, 0, "",
     "nodes in order of their ids: [user@]host[:port]; ranges like node-[01-16]; !name leaves a "
     "host out; @group or @file; 'local' or 'local*3' for this machine; $(COMMAND): what it "
     "prints; slurm: the nodes of the allocation; mpi: the nodes that launch starts"},
    {"cluster", "nodes", PD_INT, F(nodes), PD_LAUNCHER, "0", 0, 16384, 0, "nodes",
     "engine = slurm or kubernetes: number of nodes that paddlectl run asks for; in a Slurm "
     "allocation: the least number"},
    {"cluster", "pservers", PD_STR, F(pservers), PD_LAUNCHER, "all", 0, 0, 0, "",
     "nodes that run a parameter server: all, none, a number (the first N nodes), or 'nodes "
     "0-3,7'"},
    {"cluster", "trainers", PD_STR, F(trainers), PD_LAUNCHER, "all", 0, 0, 0, "",
     "nodes that run a trainer; written like pservers"},
    {"cluster", "root_dir", PD_STR, F(root_dir), PD_LAUNCHER, "~/paddle", 0, 0, 0, "",
     "folder on the nodes that holds everything paddlectl writes there; ~ and %n (node id) are "
     "replaced"},
    {"cluster", "connect", PD_STR, F(connect), PD_LAUNCHER, "", 0, 0, 0, "",
     "command that gives a shell on a host, in place of ssh: kubectl exec -i %h --. %h is the "
     "host, %u the user, %p the port, %n the node id"},
    {"cluster", "launch", PD_STR, F(launch), PD_LAUNCHER, "", 0, 0, 0, "",
     "command that starts a program on all nodes at once, in place of ssh: mpirun --hostfile FILE, "
     "srun. The programs call paddlectl back. %H is replaced by the hosts, separated by commas"},
    {"cluster", "nic", PD_STR, F(nic), PD_LAUNCHER, "", 0, 0, 0, "",
     "network interface or subnet between the nodes; empty: the address that the other nodes can "
     "reach"},
    {"cluster", "port", PD_INT, F(port), ALL, "7164", 0, 65535, 0, "",
     "first port to try for the traffic between trainers and pservers; ports in use are skipped; "
     "0: any free port. (The port of ssh is written in hosts: user@host:port)"},
    {"cluster", "ports_num", PD_INT, F(ports_num), ALL, "1", 1, 64, 0, "threads",
     "threads of a parameter server for dense parameters; each has a port of its own"},
    {"cluster", "ports_num_for_sparse", PD_INT, F(ports_num_for_sparse), ALL, "1", 1, 64, 0,
     "threads", "threads of a parameter server for sparse parameters; each has a port of its own"},

    {"slurm", "partition", PD_STR, F(partition), PD_LAUNCHER, "", 0, 0, 0, "",
     "partition of the allocation that paddlectl run makes; empty: Slurm's default"},
    {"slurm", "time", PD_STR, F(time), PD_LAUNCHER, "", 0, 0, 0, "",
     "its time limit, as for salloc: minutes, HH:MM:SS, DAYS-HH; empty: the partition's"},
    {"slurm", "account", PD_STR, F(account), PD_LAUNCHER, "", 0, 0, 0, "",
     "account to charge for it; empty: Slurm's default"},
    {"slurm", "options", PD_STR, F(slurm_options), PD_LAUNCHER, "", 0, 0, 0, "",
     "further options of salloc and sbatch, as a shell reads them: --exclusive --mem=0"},
    {"slurm", "allocation", PD_STR, F(allocation), PD_LAUNCHER, "", 0, 0, 0, "",
     "id of a Slurm job whose nodes to use, from outside of it"},
    {"slurm", "save_time", PD_F64, F(save_time), PD_LAUNCHER, "60", 1, 86400, 0, "s",
     "this long before the allocation's time limit the job saves its model and ends"},

    {"kubernetes", "image", PD_STR, F(image), PD_LAUNCHER, "debian:12-slim", 0, 0, 0, "",
     "image of the pods: any with /bin/sh"},
    {"kubernetes", "namespace", PD_STR, F(kube_namespace), PD_LAUNCHER, "", 0, 0, 0, "",
     "namespace of the pods; empty: that of the context"},
    {"kubernetes", "context", PD_STR, F(kube_context), PD_LAUNCHER, "", 0, 0, 0, "",
     "context of the kubeconfig; empty: the current one"},
    {"kubernetes", "run_name", PD_STR, F(run_name), PD_LAUNCHER, "", 0, 0, 0, "",
     "name of the objects; empty: a new one for paddlectl run, and for other commands the only one "
     "that there is. If pods of this name run already, they are used and stay"},
    {"kubernetes", "cpu", PD_STR, F(cpu), PD_LAUNCHER, "1", 0, 0, 0, "",
     "CPUs of a pod, as request and limit: 4 or 500m"},
    {"kubernetes", "memory", PD_STR, F(memory), PD_LAUNCHER, "2Gi", 0, 0, 0, "",
     "memory of a pod, as request and limit: 8Gi"},
    {"kubernetes", "shm", PD_STR, F(shm), PD_LAUNCHER, "512Mi", 0, 0, 0, "",
     "most of the memory that may be used in /dev/shm, for programs of your own"},
    {"kubernetes", "node_selector", PD_STR, F(node_selector), PD_LAUNCHER, "", 0, 0, 0, "",
     "labels that the machines of the pods must have: disk=ssd, zone=a"},
    {"kubernetes", "tolerations", PD_STR, F(tolerations), PD_LAUNCHER, "", 0, 0, 0, "",
     "taints of machines that the pods accept: dedicated=training:NoSchedule, spot"},
    {"kubernetes", "image_pull_secret", PD_STR, F(image_pull_secret), PD_LAUNCHER, "", 0, 0, 0, "",
     "Secret in the namespace with the password of the image's registry"},
    {"kubernetes", "run_as", PD_INT, F(run_as), PD_LAUNCHER, "1000", 0, 2147483647, 0, "",
     "number of the user and group of the processes; 0: root"},
    {"kubernetes", "pod_timeout", PD_F64, F(pod_timeout), PD_LAUNCHER, "300", 1, 86400, 0, "s",
     "time limit until all pods run"},

    {"ssh", "identity_file", PD_PATH, F(identity_file), PD_LAUNCHER, "", 0, 0, 0, "",
     "private key to log in with"},
    {"ssh", "known_hosts", PD_PATH, F(known_hosts), PD_LAUNCHER, "~/.ssh/known_hosts", 0, 0, 0, "",
     "file with the keys that the hosts must show"},
    {"ssh", "host_key_policy", PD_CHOICE, F(host_key_policy), PD_LAUNCHER, "strict", 0, 0,
     "strict|accept-new", "",
     "strict: refuse unknown host keys; accept-new: add them to known_hosts. A changed key is "
     "always refused"},
    {"ssh", "config", PD_PATH, F(ssh_config), PD_LAUNCHER, "~/.ssh/config", 0, 0, 0, "",
     "OpenSSH client configuration file to follow"},
    {"ssh", "proxy_jump", PD_STR, F(proxy_jump), PD_LAUNCHER, "", 0, 0, 0, "",
     "jump hosts on the way to every node: [user@]host[:port],...; none: also ignore the jump "
     "hosts of the ssh configuration"},
    {"ssh", "connect_timeout", PD_F64, F(connect_timeout), PD_LAUNCHER, "10", 0.1, 3600, 0, "s",
     "time limit for connecting and logging in to a host"},
    {"ssh", "fanout", PD_INT, F(fanout), PD_LAUNCHER, "128", 1, 10000, 0, "hosts",
     "largest number of logins at the same time"},

    {"job", "name", PD_STR, F(job_name), PD_LAUNCHER, "", 0, 0, 0, "",
     "a name for the job, which ps and status show; at most 60 bytes"},
    {"job", "job_dispatch_package", PD_PATH, F(job_dispatch_package), PD_LAUNCHER, "", 0, 0, 0, "",
     "workspace to send to every node: a folder or a tar archive"},
    {"job", "job_workspace", PD_STR, F(job_workspace), PD_LAUNCHER, "", 0, 0, 0, "",
     "folder that is already on the nodes, used instead of a package"},
    {"job", "outputs", PD_PATH, F(outputs), PD_LAUNCHER, "output", 0, 0, 0, "",
     "local folder for results: the job's output folder is fetched into OUTPUTS/<job id>/"},
    {"job", "profile_file", PD_PATH, F(profile_file), PD_LAUNCHER, "", 0, 0, 0, "",
     "file of the trace of profile = 1, in place of OUTPUTS/<job id>/profile.json; --profile=FILE "
     "sets both"},
    {"job", "on_end", PD_STR, F(on_end), PD_LAUNCHER, "", 0, 0, 0, "",
     "command that paddlectl runs once on this machine when the job has ended, in any way; "
     "PADDLE_JOB_* tell it job, state and metrics"},
    {"job", "on_end_timeout", PD_F64, F(on_end_timeout), PD_LAUNCHER, "60", 0.1, 3600, 0, "s",
     "time limit for on_end"},
    {"job", "trainer_command", PD_STR, F(trainer_command), PD_LAUNCHER, "", 0, 0, 0, "",
     "command that runs instead of the built-in trainer"},
    {"job", "pserver_command", PD_STR, F(pserver_command), PD_LAUNCHER, "", 0, 0, 0, "",
     "command that runs instead of the built-in parameter server"},
    {"job", "data_layout", PD_CHOICE, F(data_layout), PD_LAUNCHER | PD_TRAINER, "dispatched", 0, 0,
     "dispatched|shared|local", "",
     "dispatched: each node gets the data files of the package that its trainer reads; shared: "
     "every node has all data files; local: each trainer reads the files of its own node"},
    {"job", "data_copies", PD_INT, F(data_copies), PD_LAUNCHER, "auto", 1, 2, "auto", "nodes",
     "data_layout = dispatched: nodes that have each data file. 2: a node of another machine has "
     "it, too, so losing one machine loses nothing; auto: 2 with --detach and on_failure = "
     "restart, otherwise 1"},
    {"job", "relay", PD_CHOICE, F(relay), PD_LAUNCHER, "auto", 0, 0, "auto|off", "",
     "auto: a package leaves this machine once and the nodes pass it on; off: this machine sends "
     "it to each node"},
    {"job", "encrypt", PD_CHOICE, F(encrypt), ALL, "all", 0, 0, "all|off|relay", "",
     "connections between machines. all: every byte is encrypted and authenticated; off: only the "
     "beginning of a connection is authenticated, so anybody on the network can read and change "
     "the rest; relay: the former name of all"},
    {"job", "store_limit", PD_SIZE, F(store_limit), PD_LAUNCHER, "10G", 0, 1099511627776.0 * 1024,
     0, "bytes",
     "most bytes that a node keeps of packages without a kept job; the least recently used are "
     "removed first; 0: no limit"},
    {"job", "silence_timeout", PD_F64, F(silence_timeout), PD_LAUNCHER, "60", 1, 86400, 0, "s",
     "a node that receives a package and stays silent this long is given up"},
    {"job", "min_nodes", PD_INT, F(min_nodes), PD_LAUNCHER, "0", 0, 16384, 0, "hosts",
     "start with the usable hosts if there are at least this many; 0: all hosts must be usable"},
    {"job", "save_on_stop", PD_BOOL, F(job_save_on_stop), PD_LAUNCHER, "0", 0, 0, 0, "",
     "Ctrl-C: the trainers save the model first, and paddlectl fetches it; a second Ctrl-C stops "
     "at once"},
    {"job", "on_hangup", PD_CHOICE, F(on_hangup), PD_LAUNCHER, "stop", 0, 0, "stop|detach", "",
     "when the terminal of paddlectl run closes (SIGHUP). stop: end the job; detach: leave it "
     "running"},
    {"job", "attach_lease", PD_F64, F(attach_lease), PD_LAUNCHER, "5", 1, 86400, 0, "s",
     "an attached job ends after it has heard nothing from paddlectl for this long"},
    {"job", "detach_lease", PD_F64, F(detach_lease), PD_LAUNCHER, "60", 1, 86400, 0, "s",
     "a node ends its processes after it has lost the head node for this long"},
    {"job", "on_failure", PD_CHOICE, F(on_failure), PD_LAUNCHER, "stop", 0, 0, "stop|restart", "",
     "when a process fails or a node is lost. stop: end the job; restart: end all processes and "
     "start them again without the lost node"},
    {"job", "max_restarts", PD_INT, F(max_restarts), PD_LAUNCHER, "3", 0, 1000000, 0, "restarts",
     "with on_failure = restart: a failure after this many restarts ends the job"},
    {"job", "bind", PD_CHOICE, F(bind), PD_LAUNCHER, "auto", 0, 0, "none|auto|cores|numa", "",
     "CPUs of a process. none: all; auto: a share of them if several nodes of the job are on one "
     "machine; cores or numa: cores or NUMA nodes of its own"},
    {"job", "log_max_size", PD_SIZE, F(log_max_size), PD_LAUNCHER, "256M", 0, 1099511627776.0, 0,
     "bytes",
     "a log file on a node that reaches this size is renamed to NAME.1, and a new file begins; 0: "
     "no limit"},
    {"job", "keep_jobs", PD_INT, F(keep_jobs), PD_LAUNCHER, "10", 0, 10000, 0, "jobs",
     "number of finished jobs that paddlectl clean keeps on the hosts"},
    {"job", "log_keep", PD_INT, F(log_keep), PD_LAUNCHER, "4", 0, 100, 0, "files",
     "number of older log files to keep: NAME.1, NAME.2, ..."},

    {"train", "config", PD_STR, F(config), ALL, "train.ini", 0, 0, 0, "",
     "model and training configuration in the workspace"},
    {"train", "job", PD_CHOICE, F(job), ALL, "train", 0, 0, "train|test|checkgrad|online", "",
     "train; test: evaluate init_model_path on the test data; checkgrad: compare gradients with "
     "finite differences; online: train folders of data as they appear"},
    {"train", "num_passes", PD_INT, F(num_passes), ALL, "1", 1, 1000000, 0, "passes",
     "passes over the training data"},
    {"train", "batch_size", PD_INT, F(batch_size), ALL, "128", 1, 1 << 24, 0, "samples",
     "samples of one update. update = sync: of the whole job, divided evenly among the streams; "
     "otherwise: of one trainer"},
    {"train", "trainer_count", PD_INT, F(trainer_count), ALL, "1", 1, 256, "auto", "threads",
     "threads of a trainer; its part of a batch is divided among them; auto: one for each core "
     "that "
     "the trainer may use"},
    {"train", "n_streams", PD_INT, F(n_streams), ALL, "0", 0, 65536, 0, "streams",
     "streams that the data is divided into; 0: one for each trainer"},
    {"train", "data", PD_CHOICE, F(data), ALL, "static", 0, 0, "static|queue", "",
     "static: each trainer reads the files of its streams; queue: pservers hand out one file at a "
     "time, so fast trainers read more and a lost trainer's file goes to another; not with update "
     "= sync"},
    {"train", "seed", PD_INT, F(seed), ALL, "1", 0, 9007199254740992.0, 0, "",
     "seed of every random number of the job"},
    {"train", "update", PD_CHOICE, F(update), ALL, "sync", 0, 0, "sync|async|ssp|geo", "",
     "sync: the gradients of all trainers make one update; async: each is applied on arrival; ssp: "
     "async, but no trainer is more than staleness ahead; geo: trainers update local copies and "
     "exchange differences"},
    {"train", "reproducible", PD_CHOICE, F(reproducible), ALL, "run", 0, 0, "run|topology", "",
     "run: repeating the job gives the same bits; topology: so does a job with other numbers of "
     "trainers, servers and threads and the same n_streams (for example 12); sync only"},
    {"train", "staleness", PD_INT, F(staleness), ALL, "4", 0, 1 << 30, 0, "batches",
     "ssp: largest number of batches that a trainer may be ahead of the slowest"},
    {"train", "async_lagged_grad_discard_ratio", PD_F64, F(async_lagged_grad_discard_ratio), ALL,
     "1.5", 0, 1e9, 0, "",
     "async: a gradient older than this times the number of trainers is dropped and counted; 0: "
     "none is dropped"},
    {"train", "geo_sgd_need_push_nums", PD_INT, F(geo_sgd_need_push_nums), ALL, "100", 1, 1 << 30,
     0, "batches",
     "geo: batches between exchanges with the servers; the first exchanges come sooner"},
    {"train", "log_period", PD_INT, F(log_period), ALL, "100", 1, 1 << 30, 0, "batches",
     "batches between log lines about the cost"},
    {"train", "saving_period", PD_INT, F(saving_period), ALL, "0", 0, 1 << 30, 0, "passes",
     "passes between saved models; 0: only after the last pass"},
    {"train", "saving_period_by_batches", PD_INT, F(saving_period_by_batches), ALL, "0", 0, 1 << 30,
     0, "batches", "batches between checkpoints inside a pass; 0: none"},
    {"train", "saving_deltas", PD_INT, F(saving_deltas), ALL, "0", 0, 255, 0, "saves",
     "number of saves of changed table rows between two saves of all rows; 0: every save has all "
     "rows"},
    {"train", "checkpoint_copies", PD_INT, F(checkpoint_copies), ALL, "1", 1, 2, 0, "",
     "2: another pserver's disk also holds each pserver's part of a saved model, so losing one "
     "node loses nothing"},
    {"train", "save_only_one", PD_BOOL, F(save_only_one), ALL, "0", 0, 0, 0, "",
     "when a saved model is complete, remove the older ones"},
    {"train", "keep_best", PD_STR, F(keep_best), ALL, "", 0, 0, 0, "",
     "save each pass whose test is the best so far, and never remove the best: a value of the test "
     "data, such as test.auc or test.cost"},
    {"train", "early_stopping_passes", PD_INT, F(early_stopping_passes), ALL, "0", 0, 1 << 30, 0,
     "passes", "end the job when keep_best has not improved for so many passes; 0: never"},
    {"train", "save_state", PD_BOOL, F(save_state), ALL, "1", 0, 0, 0, "",
     "also save the optimizer's state, so that training can resume from a saved model"},
    {"train", "resume", PD_STR, F(resume), ALL, "", 0, 0, 0, "",
     "resume from this checkpoint: a job (JOB..., JOB.../pass-00003) or a folder of this machine "
     "(paddlectl run), a folder of the workspace, a name in save_dir, or latest: the most advanced "
     "checkpoint in save_dir, if there is any"},
    {"train", "resume_older", PD_BOOL, F(resume_older), ALL, "0", 0, 0, 0, "",
     "if that checkpoint is damaged or incomplete, resume from the one before it"},
    {"train", "start_pass", PD_INT, F(start_pass), ALL, "0", 0, 1000000, 0, "",
     "begin with this pass, from the checkpoint of the previous pass in save_dir"},
    {"train", "save_initial", PD_BOOL, F(save_initial), ALL, "0", 0, 0, 0, "",
     "also save the initial model, as pass-init"},
    {"train", "save_dir", PD_STR, F(save_dir), ALL, "output", 0, 0, 0, "",
     "folder for models, in the workspace"},
    {"train", "init_model_path", PD_STR, F(init_model_path), ALL, "", 0, 0, 0, "",
     "saved model to start from"},
    {"train", "load_missing_parameter_strategy", PD_CHOICE, F(load_missing_parameter_strategy), ALL,
     "fail", 0, 0, "fail|rand|zero", "",
     "for parameters that the saved model lacks. fail: end with an error; rand: initialize as "
     "usual; zero: fill with zeros"},
    {"train", "max_bad_lines", PD_INT, F(max_bad_lines), ALL, "0", 0, 1 << 30, 0, "lines",
     "malformed data lines to skip in each stream and pass before the job fails"},
    {"train", "reader_threads", PD_INT, F(reader_threads), ALL, "1", 0, 64, 0, "threads",
     "threads of a trainer that prefetch and parse data, besides the thread that makes batches; 0: "
     "read data only when it is needed"},
    {"train", "shuffle_buffer", PD_INT, F(shuffle_buffer), ALL, "0", 0, 1 << 28, 0, "samples",
     "shuffle the training samples of a stream within groups of this size, in a new order each "
     "pass; 0: keep the order"},
    {"train", "online_done_file", PD_STR, F(online_done_file), ALL, "_DONE", 0, 0, 0, "",
     "job = online: a folder is complete when it has this file; empty: when nothing in the folder "
     "has changed for online_quiet seconds"},
    {"train", "online_quiet", PD_F64, F(online_quiet), ALL, "60", 0, 86400, 0, "s",
     "job = online: see online_done_file"},
    {"train", "online_until", PD_STR, F(online_until), ALL, "", 0, 0, 0, "",
     "job = online: end after this folder (DAY/MINUTE) or day (DAY)"},
    {"train", "online_stop_file", PD_STR, F(online_stop_file), ALL, "online.stop", 0, 0, 0, "",
     "job = online: end, between two folders, when this file is in the workspace of the first "
     "trainer"},
    {"train", "online_idle", PD_F64, F(online_idle), ALL, "0", 0, 1e9, 0, "s",
     "job = online: end when no folder became complete for this long; 0: wait for ever"},
    {"train", "online_shuffle", PD_BOOL, F(online_shuffle), ALL, "1", 0, 0, 0, "",
     "job = online: assign the files of a folder to the streams in a new random order each pass; "
     "0: in the order of their names"},
    {"train", "online_test", PD_BOOL, F(online_test), ALL, "1", 0, 0, 0, "",
     "job = online: test with each folder before training on it"},
    {"train", "online_base_period", PD_INT, F(online_base_period), ALL, "0", 0, 1 << 30, 0,
     "passes",
     "job = online: passes between saves of all rows; 0: save all rows after the first pass of "
     "each day"},
    {"train", "online_delta_period", PD_INT, F(online_delta_period), ALL, "1", 0, 1 << 30, 0,
     "passes",
     "job = online: passes between saves; a save that is not due to have all rows has the changed "
     "rows; 0: only saves of all rows"},
    {"train", "online_keep", PD_INT, F(online_keep), ALL, "0", 0, 1 << 30, 0, "passes",
     "job = online: number of passes whose saved models are kept; older models are removed; 0: "
     "keep all"},
    {"train", "stop_on_nan", PD_BOOL, F(stop_on_nan), ALL, "1", 0, 0, 0, "",
     "end the job when the cost is not a finite number"},
    {"train", "reject_nan", PD_BOOL, F(reject_nan), ALL, "0", 0, 0, 0, "",
     "pservers refuse a trainer that sends a gradient with a non-finite number; on_trainer_lost "
     "then decides about the job; has priority over stop_on_nan"},
    {"train", "reconnect_timeout", PD_F64, F(reconnect_timeout), ALL, "10", 0.1, 86400, 0, "s",
     "how long a trainer tries to restore a broken connection, and how long a pserver waits for "
     "it"},
    {"train", "heartbeat_timeout", PD_F64, F(heartbeat_timeout), ALL, "30", 2, 86400, "0", "s",
     "a trainer or pserver without heartbeat for this long counts as lost; long steps do not "
     "matter; 0: never (for debuggers)"},
    {"train", "start_timeout", PD_F64, F(start_timeout), ALL, "1800", 1, 1e7, 0, "s",
     "how long a pserver waits for trainers that have not connected yet; each new trainer restarts "
     "the time"},
    {"train", "on_trainer_lost", PD_CHOICE, F(on_trainer_lost), ALL, "fail", 0, 0,
     "fail|wait|continue", "",
     "when a trainer does not come back. fail: the pservers end the job; wait: until the trainer "
     "is started again (by on_failure = restart, or by hand); continue: without the streams of "
     "that trainer"},
    {"train", "overlap", PD_BOOL, F(overlap), ALL, "1", 0, 0, 0, "",
     "send gradients during the backward pass, and request the next batch's rows before it; 0: "
     "after the backward pass, with the same result"},
    {"train", "profile", PD_BOOL, F(profile), ALL, "0", 0, 0, 0, "",
     "record what the threads of trainers and pservers do when (the last 32768 spans of each); "
     "paddlectl run makes output/JOB/profile.json of it, for ui.perfetto.dev"},
    {"train", "local", PD_BOOL, F(local), PD_TRAINER, "0", 0, 0, 0, "",
     "train in this one process, without servers"},
    {"train", "use_gpu", PD_INT, F(use_gpu), ALL, "0", 0, 0, 0, "",
     "accepted for compatibility; only 0"},

    {"worker", "pservers", PD_STR, F(pserver_list), PD_TRAINER, "", 0, 0, 0, "",
     "addresses of the parameter servers: 10.0.0.1,10.0.0.2:7170 (first port of each)"},
    {"worker", "nics", PD_STR, F(nics), PD_PSERVER, "", 0, 0, 0, "",
     "interface or address to listen on; empty: all"},
    {"worker", "key_file", PD_STR, F(key_file), PD_WORKER, "", 0, 0, 0, "",
     "file with the job's key, 32 bytes, mode 0600; the same on every machine"},
    {"worker", "trainer_id", PD_INT, F(trainer_id), PD_TRAINER, "0", 0, 65535, 0, "",
     "number of this trainer"},
    {"worker", "num_gradient_servers", PD_INT, F(num_gradient_servers), PD_WORKER, "1", 1, 65536, 0,
     "trainers", "number of trainers of the job"},
    {"worker", "save_on_stop", PD_BOOL, F(save_on_stop), PD_TRAINER, "0", 0, 0, 0, "",
     "Ctrl-C or TERM: finish the step, save the model, then end; a second signal ends the process "
     "at once (SIGUSR1 always saves)"},
    {"worker", "server_timeout", PD_F64, F(server_timeout), PD_WORKER, "60", 0.1, 86400, 0, "s",
     "how long to try servers that do not answer yet"},
};

enum { N_OPTIONS = sizeof table / sizeof table[0] };

/* Names that users of the original system may bring along, and why they mean nothing here. */
const struct pd_refused_option pd_refused_options[] = {
    {"ports_num_for_pserver", "the number of ports is ports_num"},
    {"rdma_tcp", "the transport is always TCP"},
    {"parallel_nn", "layers are not placed on devices"},
    {"gpu_id", "there is no GPU support"},
    {"nccl_init", "there is no GPU support"},
    {"predict_output_dir", "paddlectl infer prints predictions"},
    {"comment", "it was never used"},
    {"dot_period", "a line about the cost appears every log_period batches"},
    {"test_period", "a test comes before the first pass and after each one"},
    {"config_args", "--set SECTION.KEY=VALUE sets a key of train.ini"},
    {"local", "--hosts=local trains on this machine, or paddle_worker trainer --local"},
    {"SPLIT_COUNT", "prepare and split take --shards=N; without it prepare makes a file for each "
                    "trainer of conf.ini"},
    {"split_count", "prepare and split take --shards=N; without it prepare makes a file for each "
                    "trainer of conf.ini"},
    {NULL, NULL},
};

const struct pd_option *pd_option_table(size_t *n) {
    *n = N_OPTIONS;
    return table;
}

void *pd_option_field(const struct pd_options *o, size_t i) {
    return (char *)(uintptr_t)o + table[i].field;
}

int pd_options_init(struct pd_options *o, struct pd_err *err) {
    memset(o, 0, sizeof *o);
    o->origin = pd_calloc(N_OPTIONS, sizeof *o->origin);
    if (!o->origin)
        return pd_fail(err, PD_ENOMEM, "options: out of memory");
    for (size_t i = 0; i < N_OPTIONS; i++) {
        int rc = pd_option_assign(o, i, table[i].def, "default", NULL, err);
        if (rc) {
            pd_options_release(o);
            return rc;
        }
        pd_fmt(o->origin[i].where, sizeof o->origin[i].where, "default");
    }
    return 0;
}

int pd_options_copy(struct pd_options *o, const struct pd_options *from, struct pd_err *err) {
    int rc = pd_options_init(o, err);
    for (size_t i = 0; i < N_OPTIONS && !rc; i++) {
        const void *was = pd_option_field(from, i);
        void *to = pd_option_field(o, i);
        o->origin[i] = from->origin[i];
        if (table[i].type != PD_STR && table[i].type != PD_PATH) {
            memcpy(to, was, table[i].type == PD_F64 ? sizeof(double) : sizeof(int64_t));
            continue;
        }
        free(*(char **)to);
        if (!(*(char **)to = pd_strdup(*(char *const *)was)))
            rc = pd_fail(err, PD_ENOMEM, "options: out of memory");
    }
    if (rc && o->origin)
        pd_options_release(o);
    return rc;
}

void pd_options_release(struct pd_options *o) {
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (table[i].type == PD_STR || table[i].type == PD_PATH)
            free(*(char **)pd_option_field(o, i));
    pd_sections_release(o);
    pd_settings_release(o);
    free(o->conf_dir);
    free(o->origin);
    memset(o, 0, sizeof *o);
}
