"""The checklist of the runtime-spec: a row for each property, and where to look for the proof.

A row: section of the specification, property, how far ("yes", "part" or "refused"), a remark, the
modules (below minirun/) that do it, the tests (below tests/) that show it. A test is named by its
file, and by its functions where not all of the file is about the property.
"""

from typing import NamedTuple


class Row(NamedTuple):
    """One line of the checklist."""

    section: str
    name: str
    support: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]
    remark: str = ""


_V1_OR_V2 = "on both versions of cgroups, as far as the kernel has the controller"
_SECURITY = "security/test_privileges.py"
_PRIVILEGES = "core/process/test_privileges.py"
_RESOURCES = "cgroups/test_resources.py"
_BUNDLES = "cli/runc/test_bundles.py"

ROWS = (
    Row("config.md", "ociVersion", "yes", ("oci/validate.py",),
        ("spec/test_devices.py::test_versions_of_the_specification",
         "oci/test_validate.py::test_malformed"), "1.x.y; another major version is an error"),
    Row("config.md", "unknown properties", "yes", ("oci/validate.py",),
        ("spec/test_names.py::test_what_it_does_not_know_it_passes_over",
         "oci/test_validate.py::test_properties_it_does_not_know_are_kept"),
        "passed over, and kept in the saved config.json"),
    Row("config.md", "annotations", "yes", ("core/container.py", "core/keeping/state.py"),
        ("spec/test_namespaces.py::test_the_state_says_who_it_is",)),
    Row("config.md", "root.path, root.readonly", "yes", ("core/rootfs/build.py",
        "core/rootfs/hidden.py"),
        ("spec/test_mounts.py::test_a_read_only_root",
         "core/rootfs/test_build.py::test_a_root_that_is_no_directory")),
    Row("config.md", "hostname, domainname", "yes", ("core/stages/s1_clone.py",),
        ("spec/test_names.py::test_host_name_and_domain_name",)),
    Row("config.md", "process.terminal, consoleSize", "yes", ("oci/terminal/terminal.py",),
        ("oci/terminal/test_terminal.py",)),
    Row("config.md", "process.cwd", "yes", ("core/process/privileges.py",),
        (f"{_PRIVILEGES}::test_the_working_directory_is_made",
         f"{_PRIVILEGES}::test_a_working_directory_that_is_not_there_is_126")),
    Row("config.md", "process.env, args", "yes", ("core/process/command.py",
        "oci/home.py"),
        ("core/process/test_command.py", "spec/test_devices.py::test_home"),
        "HOME is added where it is missing, as runc does"),
    Row("config.md", "process.user", "yes", ("core/process/privileges.py",),
        (f"{_PRIVILEGES}::test_user_group_and_groups", f"{_PRIVILEGES}::test_umask",
         f"{_PRIVILEGES}::test_the_callers_groups_do_not_stay"), "umask is 022 where it is unset"),
    Row("config.md", "process.rlimits", "yes", ("oci/validate.py", "oci/tuning/limits.py"),
        (f"{_PRIVILEGES}::test_every_resource_limit_is_set",
         "oci/test_validate.py::test_malformed"),
        "an unknown one, or one that stands there twice, is an error"),
    Row("config.md", "process.capabilities", "yes", ("core/process/caps.py",),
        ("core/process/test_caps.py",
         f"{_PRIVILEGES}::test_a_capability_that_cannot_be_granted_is_a_warning"),
        "five sets; what cannot be granted is a warning in the log"),
    Row("config.md", "process.noNewPrivileges", "yes", ("core/process/privileges.py",),
        (f"{_PRIVILEGES}::test_no_new_privileges",)),
    Row("config.md", "process.oomScoreAdj", "yes", ("oci/tuning/limits.py",),
        (f"{_PRIVILEGES}::test_the_out_of_memory_score",)),
    Row("config.md", "process.apparmorProfile", "part", ("oci/tuning/labels.py",),
        ("spec/test_devices.py::test_a_label_without_its_module",),
        "asked for at execve where the kernel has AppArmor (no test sees it); else a warning"),
    Row("config.md", "process.selinuxLabel, linux.mountLabel", "refused", ("oci/tuning/labels.py",),
        ("spec/test_devices.py::test_a_label_without_its_module",),
        "an error where the kernel has SELinux, a warning where not"),
    Row("config.md", "process.scheduler", "yes", ("oci/tuning/tuning.py", "oci/tuning/sched.py"),
        ("spec/test_tuning.py::test_a_scheduler_of_real_time",
         "spec/test_tuning.py::test_a_deadline")),
    Row("config.md", "process.ioPriority", "yes", ("oci/tuning/tuning.py", "oci/tuning/sched.py"),
        ("spec/test_tuning.py::test_io_priority",)),
    Row("config.md", "process.execCPUAffinity", "yes", ("oci/tuning/tuning.py", "oci/exec/join.py"),
        ("spec/test_tuning.py::test_cpus_for_exec_alone",)),
    Row("config.md", "mounts: order, type, source, destination", "yes",
        ("core/rootfs/mount_list.py", "core/rootfs/mount_entry.py"),
        ("core/rootfs/test_build.py::test_later_mounts_lie_over_earlier_ones",
         "spec/test_mounts.py::test_the_order_is_that_of_the_list",
         "spec/test_mounts.py::test_a_relative_destination")),
    Row("config.md", "mounts: destination over /proc", "part", ("core/rootfs/mount_entry.py",),
        ("security/test_over_proc.py",),
        "procfs at /proc, and below it the files that lxcfs shows; any other is refused, as by"
        " runc 1.3"),
    Row("config.md", "mounts: option words", "yes", ("core/rootfs/mount_options.py",),
        ("core/rootfs/test_mount_options.py",
         "spec/test_mounts.py::test_words_that_are_a_mounts_own",
         "spec/test_mounts.py::test_words_that_only_the_call_shows")),
    Row("config.md", "mounts: recursive words", "yes", ("core/rootfs/mount_entry.py",),
        ("core/rootfs/test_build.py::test_read_only_and_recursively_read_only",)),
    Row("config.md", "mounts: propagation in order", "yes", ("core/rootfs/mount_entry.py",),
        ("spec/test_mounts.py::test_later_words_of_propagation_come_on_top",)),
    Row("config.md", "mounts: idmap, ridmap, mappings", "yes", ("oci/mounts/sources.py",),
        ("spec/test_mounts.py::test_an_id_mapped_bind",
         "spec/test_mounts.py::test_ids_reach_below_only_with_ridmap",
         "spec/test_mounts.py::test_no_mapping_at_all")),
    Row("config.md", "mounts: tmpcopyup", "yes", ("oci/mounts/copyup.py",),
        ("spec/test_mounts.py::test_a_tmpfs_with_what_was_below_it",)),
    Row("config.md", "hooks", "yes", ("core/hooks.py", "core/stages/s3_prestart.py",
        "core/stages/s7_exec.py"),
        ("spec/test_hooks.py", "core/test_hooks.py"),
        "six kinds; NVIDIA's own hook is called in-line, and not executed"),
    Row("config-linux.md", "namespaces, new", "yes", ("core/stages/s1_clone.py",),
        ("core/stages/test_stages.py",)),
    Row("config-linux.md", "namespaces, by path", "yes", ("oci/namespaces/helper.py",),
        ("spec/test_namespaces.py::test_a_namespace_by_path",
         "spec/test_namespaces.py::test_a_user_namespace_by_path",
         "spec/test_namespaces.py::test_a_mount_namespace_by_path"),
        "the processes of a mount namespace that is joined see the container's mounts, too"),
    Row("config-linux.md", "namespaces, without type mount", "yes",
        ("oci/mounts/host_namespace.py",), ("spec/test_host_mounts.py",),
        "no path can be hidden then, and a process that may chroot can leave; a mount namespace"
        " named by path must be another than the runtime's"),
    Row("config-linux.md", "uidMappings, gidMappings", "yes", ("oci/namespaces/userns.py",),
        ("gpu/test_userns.py", "spec/test_mounts.py::test_the_containers_own_mapping")),
    Row("config-linux.md", "timeOffsets", "yes", ("oci/namespaces/helper.py",),
        ("spec/test_namespaces.py::test_clocks_of_its_own",
         "spec/test_namespaces.py::test_clocks_that_the_kernel_refuses")),
    Row("config-linux.md", "devices", "yes", ("core/rootfs/nodes.py",),
        ("spec/test_devices.py::test_devices_of_all_kinds",
         "spec/test_devices.py::test_a_device_that_is_there_already")),
    Row("config-linux.md", "default devices and links", "yes", ("core/rootfs/nodes.py",),
        ("spec/test_devices.py::test_default_devices_and_links",
         f"{_BUNDLES}::test_without_a_mount_at_dev_the_default_devices_are_there"),
        "without a mount at /dev in the root filesystem itself, as with runc; a /dev bound from the"
        " host is left as it is"),
    Row("config-linux.md", "netDevices", "yes", ("net/devices.py",),
        ("spec/test_namespaces.py::test_a_network_device",
         "spec/test_namespaces.py::test_a_name_that_is_taken")),
    Row("config-linux.md", "cgroup ownership", "yes", ("cgroups/tree.py",),
        ("spec/test_namespaces.py::test_who_owns_the_containers_cgroup",)),
    Row("config-linux.md", "cgroupsPath", "yes", ("cgroups/base.py",),
        ("cgroups/test_cgroup.py::test_paths_are_taken_from_the_root_of_the_mount",
         "cgroups/test_frozen.py"), "one that is frozen is refused"),
    Row("config-linux.md", "resources.devices", "yes", ("cgroups/ruleset.py",),
        ("cgroups/test_device_rules.py",), _V1_OR_V2),
    Row("config-linux.md", "resources.memory, cpu, pids", "yes", ("cgroups/resources.py",),
        (_RESOURCES, "cgroups/test_v1.py", "cgroups/test_v2.py"), _V1_OR_V2),
    Row("config-linux.md", "resources.blockIO, hugepageLimits, network, rdma", "yes",
        ("cgroups/perdevice.py",), ("cgroups/test_perdevice.py",), _V1_OR_V2),
    Row("config-linux.md", "resources.unified", "yes", ("cgroups/resources.py",),
        (f"{_RESOURCES}::test_unified_comes_last_and_as_it_is",
         "cgroups/test_v2.py::test_each_line_of_a_unified_value_is_a_write_of_its_own"),
        "each line of a value is a write"),
    Row("config-linux.md", "intelRdt", "refused", ("oci/tuning/tuning.py",),
        ("spec/test_devices.py::test_intel_rdt_is_refused",), "an error"),
    Row("config-linux.md", "memoryPolicy", "yes", ("oci/tuning/tuning.py", "oci/tuning/sched.py"),
        ("spec/test_tuning.py::test_memory_policy",
         "spec/test_tuning.py::test_a_memory_policy_that_is_none")),
    Row("config-linux.md", "sysctl", "yes", ("oci/tuning/sysctl.py",),
        ("spec/test_names.py::test_sysctls", "spec/test_names.py::test_a_sysctl_that_is_refused"),
        "those that a namespace has for itself; any other is an error"),
    Row("config-linux.md", "seccomp", "yes",
        ("oci/seccomp/profile.py", "oci/seccomp/compiler.py", "oci/seccomp/default.json"),
        ("oci/seccomp/test_seccomp.py", "spec/test_seccomp.py::test_what_is_wrong",
         "oci/seccomp/test_default.py", "security/test_system_calls.py"),
        "`run IMAGE` and `spec IMAGE` write a default profile"),
    Row("config-linux.md", "seccomp: calls newer than the profile", "yes",
        ("oci/seccomp/new_calls.py",), ("oci/seccomp/test_newcalls.py",), "ENOSYS, as with runc"),
    Row("config-linux.md", "seccomp: SCMP_ACT_NOTIFY", "yes", ("oci/seccomp/notify.py",),
        ("spec/test_seccomp.py::test_the_agent_decides",
         "spec/test_seccomp.py::test_an_exec_has_a_listener_of_its_own"),
        "for any call but write, and not as the default, as with runc"),
    Row("config-linux.md", "rootfsPropagation", "yes", ("oci/mounts/propagation.py",),
        ("spec/test_mounts.py::test_propagation_of_the_root", "oci/mounts/test_propagation.py")),
    Row("config-linux.md", "maskedPaths, readonlyPaths", "yes", ("core/rootfs/hidden.py",),
        ("spec/test_names.py::test_masked_and_read_only_paths", "core/rootfs/test_hidden.py")),
    Row("config-linux.md", "personality", "yes", ("oci/tuning/tuning.py", "oci/tuning/sched.py"),
        ("spec/test_tuning.py::test_a_machine_of_32_bits",)),
    Row("runtime.md", "state", "yes", ("core/keeping/state.py",), ("core/keeping/test_state.py",)),
    Row("runtime.md", "create, start, kill, delete", "yes",
        ("core/lifecycle.py", "running/control.py"),
        ("core/lifecycle/test_races.py", "spec/test_hooks.py")),
    Row("features.md", "features", "yes", ("oci/features.py",),
        ("cli/runc/test_limits.py::test_features_say_what_the_tables_hold",)),
)  # fmt: skip

DEPARTURES: tuple[tuple[str, str, str], ...] = (
    (
        "A read-only bind mount keeps nosuid, nodev and noexec of the mount that it shows.",
        "runc's second mount(2) lifts them, though config.json does not say so.",
        "spec/test_mounts.py::test_a_read_only_bind_lifts_nothing",
    ),
    (
        "An ociVersion of another major number, such as 9.9.9, is refused.",
        "The same property may mean something else there.",
        "spec/test_devices.py::test_versions_of_the_specification",
    ),
    (
        "A label of AppArmor or SELinux on a kernel without the module is a warning.",
        "The same config.json works on both; crun does not even warn.",
        "spec/test_devices.py::test_a_label_without_its_module",
    ),
    (
        "errnoRet or defaultErrnoRet beside an action that returns no number is refused.",
        "runtime-spec asks for an error; runc passes it over.",
        "spec/test_seccomp.py::test_what_is_wrong",
    ),
    (
        "A hook on the host without env has an empty environment.",
        "runc hands its own on, and with it what an engine was started with (CVE-2025-23266).",
        f"{_SECURITY}::test_cve_2025_23266_hooks_get_their_own_environment",
    ),
    (
        "Without a mount namespace the host's mounts stay as they are, and `delete` unmounts the"
        " container's.",
        "runc makes all of the host's slaves, and leaves the container's behind.",
        "spec/test_host_mounts.py::test_while_it_lives_the_host_sees_its_mounts",
    ),
    (
        "A mount's destination is a path inside the container, to the letter.",
        "runc leaves out the path of the root filesystem if a destination begins with it.",
        "spec/test_mounts.py::test_a_destination_that_begins_with_the_roots_path",
    ),
    (
        "An id-mapped source is opened before the first entry of mounts is mounted.",
        "runc 1.3 opens it in its turn: one below the root shows what an earlier entry put there.",
        "spec/test_mounts.py::test_an_id_mapped_source_is_opened_before_the_first_mount",
    ),
    (
        "A regular file of the caller as stdout or stderr keeps its owner, so a container's user"
        " other than its owner cannot open /dev/stdout again.",
        "It is the caller's, and stays after the container; runc gives it to the container's user"
        " (`create`, `run -d`), or puts a pipe in between (`run`). A pipe or a terminal is given to"
        " the user here, too.",
        f"{_BUNDLES}::test_a_file_as_output_keeps_its_owner_here_and_not_with_runc",
    ),
    (
        "A pids.limit of 0 is no limit if config.json is of a version before 1.3, and else 1.",
        "The specification made it a limit in 1.3, and engines before that wrote it for none, as"
        " runc up to 1.3 and crun take it; runc 1.4 makes 1 of it in every version.",
        "oci/test_validate.py::test_a_limit_of_no_processes_is_none_before_the_spec_said_otherwise",
    ),
    (
        "An error is a line that begins with `minirun: `, also if the command cannot be executed.",
        "The line of runc's init has no name before it, and runc's own are logrus' records.",
        f"{_BUNDLES}::test_an_error_begins_with_the_programs_name_here_and_not_with_runc",
    ),
    (
        "Of what runc tells with --debug minirun has the flags of a seccomp filter alone.",
        "The other lines name steps in runc's own source (nsexec, exeseal); minirun's steps are in"
        " the container's log.",
        f"{_BUNDLES}::test_the_flags_of_a_filter_are_told_for_debugging",
    ),
    (
        "Help has a layout of its own.",
        "It begins with the usage in one line; runc's has the sections of its Go library (NAME).",
        "cli/test_help.py::test_help_calls_no_other_program",
    ),
    (
        "Until it becomes its command, a created container's init holds its log, its two FIFOs and"
        " the trampoline open.",
        "The log is written by the process that acts; runc's init writes none. The descriptors are"
        " closed by execve(2).",
        f"{_BUNDLES}::test_what_a_created_container_holds_open",
    ),
    (
        "`list` of a state root that is not there is empty.",
        "It is one in which no container was made yet, as with runc up to 1.1.",
        f"{_BUNDLES}::test_a_state_root_that_is_not_there_has_no_containers",
    ),
    (
        "A container with a terminal is neither checkpointed nor restored.",
        "runc has CRIU leave the terminal's other end to it, by an option (orphan_pts_master) that"
        " only CRIU's RPC has. minirun calls criu by command line: such a checkpoint could not be"
        " restored.",
        "toolkit/criu/test_refusals.py::test_a_terminal",
    ),
    (
        "rootfsPropagation slave makes the container's root a slave of what it lies on.",
        "runc 1.5 leaves it private: it parts the mount below before it asks for a slave.",
        "spec/test_mounts.py::test_propagation_of_the_root",
    ),
)
"""(what minirun does otherwise than runc on purpose, why, a test that shows it)."""
