//! Programs that do not want to die. Each has a unique number in its command line, by which it is found.

/// One of them: what it does, and the shell script that does it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hostile {
    pub(crate) name: &'static str,
    script: &'static str,
}

/// Each ends only by being killed. `MARK` is a number of seconds, and is how leftovers are recognised.
pub(crate) const ALL: [Hostile; 8] = [
    Hostile {
        name: "ignores signals",
        script: "trap '' HUP INT QUIT TERM USR1 USR2 ALRM PIPE XCPU; while :; do sleep MARK; done",
    },
    Hostile {
        name: "forks",
        script: "for i in 1 2 3 4 5 6 7 8; do sleep MARK & done; wait; sleep MARK",
    },
    Hostile {
        name: "detaches itself twice",
        script: "(setsid sh -c 'trap \"\" TERM; (setsid sleep MARK &) ; setsid sh -c \"(sleep MARK &) ; sleep MARK\"' &) ; sleep MARK",
    },
    Hostile {
        name: "stops itself",
        script: "(kill -STOP $(sh -c 'echo $PPID'); sleep MARK) & kill -STOP $$; sleep MARK",
    },
    Hostile {
        // Each link forks the next and ends, so that no list of processes is true when it is read.
        name: "fork chain",
        script: ": MARK; link() { link & exit; }; link & while :; do sleep MARK; done",
    },
    Hostile { name: "spins", script: ": MARK; while :; do :; done & while :; do :; done" },
    Hostile { name: "blocks on reading", script: "read line; sleep MARK" },
    Hostile {
        name: "floods its output",
        script: "while :; do echo MARK MARK MARK MARK MARK MARK; done & sleep MARK",
    },
];

/// One process and no more: what a tier without a pid namespace ends together with its supervisor.
pub(crate) const ALONE: Hostile = Hostile { name: "does not fork", script: "exec sleep MARK" };

impl Hostile {
    /// The command, with its mark.
    pub(crate) fn argv(self, mark: &str) -> [String; 3] {
        ["sh".into(), "-c".into(), self.script.replace("MARK", mark)]
    }
}
