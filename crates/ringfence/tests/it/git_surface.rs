//! Git's executable surface, attacked: after hostile runs the host's git executes nothing of theirs. Every row is tried
//! without the fence first, where it must succeed. The table in docs/git.md names these rows.

use ringfence_testing::BoundedCommand as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::World;

/// One attack.
struct Row {
    /// What it is about; the name in docs/git.md.
    name: &'static str,
    /// What the user has made, on the host, in the workspace.
    host: &'static str,
    /// What hostile runs do, one after the other.
    runs: &'static [&'static str],
    /// Where the runs work, below the workspace of the world.
    cwd: &'static str,
    /// What the user does afterwards, in `work`, besides the usual commands.
    then: &'static str,
}

const fn row(name: &'static str, host: &'static str, runs: &'static [&'static str]) -> Row {
    Row { name, host, runs, cwd: "", then: "true" }
}

/// Makes two submodules, one in the other, as `git submodule add` does.
const SUBMODULES: &str = "
    git init -q ../nested_origin && git -C ../nested_origin commit -q --allow-empty -m n
    git init -q ../sub_origin && git -C ../sub_origin commit -q --allow-empty -m s
    git -C ../sub_origin submodule --quiet add ../nested_origin nested && git -C ../sub_origin commit -qm nested
    git init -q . && git commit -q --allow-empty -m w
    git submodule --quiet add ../sub_origin libs/sub && git commit -qm sub
    git submodule --quiet update --init --recursive";

/// A repository with a file.
const REPOSITORY: &str = "git init -q . && echo a > a && git add a && git commit -qm one";

/// A nested repository that is added as it is, without `.gitmodules`.
const UNABSORBED: &str = "git init -q . && git commit -q --allow-empty -m w
    mkdir -p deep/er && git init -q deep/er/q && git -C deep/er/q commit -q --allow-empty -m q
    git add deep 2>/dev/null && git commit -qm q";

/// Commits to pick on another branch, and a directory of programs that git does not list.
const UNFINISHED: &str = "git init -q . && echo a > a && git add a && git commit -qm one
    git checkout -q -b o && echo 1 > b && git add b && git commit -qm b && echo 2 > c && git add c && git commit -qm c && git checkout -q main
    echo 3 > d && git add d && git commit -qm d && echo git-merge-a >> .git/info/exclude";

/// Leaves a cherry-pick unfinished whose options, in the format of printf, name a program of the checkout.
macro_rules! strategy {
    ($options:literal) => {
        strategy!($options, "")
    };
    ($options:literal, $rest:literal) => {
        concat!(
            "mkdir .git/sequencer; git rev-parse HEAD > .git/sequencer/head
             printf \"pick $(git rev-parse o~) b\\npick $(git rev-parse o) c\\n\" > .git/sequencer/todo
             mkdir git-merge-a; printf '#!/bin/sh\\ntouch MARK\\n' > git-merge-a/x; chmod +x git-merge-a/x
             printf '", $options, "' > .git/sequencer/opts", $rest
        )
    };
}

/// A hostile repository at `deep/ev`, and a call that has an index name it.
macro_rules! evil {
    ($rest:literal) => {
        concat!(
            "mkdir -p deep; git init -q deep/ev; git -C deep/ev commit -q --allow-empty -m x
             git -C deep/ev config core.fsmonitor 'touch MARK;'
             add() { git update-index --add --cacheinfo 160000,$(git -C $1 rev-parse HEAD),$1; }
             index() { python3 - \"$@\" <<'E'
import sys, hashlib, struct
out, oid, *names = sys.argv[1:]
data = b'DIRC' + struct.pack('>II', 2, len(names))
for name in sorted(n.encode() for n in names):
    entry = struct.pack('>10I', 0, 0, 0, 0, 0, 0, 0o160000, 0, 0, 0) + bytes.fromhex(oid)
    entry += struct.pack('>H', len(name)) + name
    data += entry + bytes(8 - len(entry) % 8)
open(out, 'wb').write(data + hashlib.sha1(data).digest())
E
             }
             ",
            $rest
        )
    };
}

/// A repository with another one in it that its index names.
const WITH_NESTED: &str =
    "git init -q . && git init -q sub && git -C sub commit -q --allow-empty -m s
    git add sub 2>/dev/null && git commit -qm sub";

/// A bare repository, and a worktree made from it.
const BARE_WITH_WORKTREE: &str = "git init -q s && git -C s commit -q --allow-empty -m s
    git clone -q --bare s repo.git && rm -rf s && git -C repo.git worktree add -q ../wt";

const ROWS: &[Row] = &[
    row("an index that is a link", REPOSITORY, &[evil!("add deep/ev; mv .git/index idx; ln -s ../idx .git/index")]),
    row(
        "a worktree's index that is a link",
        "git init -q . && git commit -q --allow-empty -m w && git worktree add -q wt",
        &[evil!("mv deep wt; cd wt; add deep/ev; mv ../.git/worktrees/wt/index idx; ln -s ../../../wt/idx ../.git/worktrees/wt/index")],
    )
    .then("git -C wt status"),
    row("the index of a nested repository", WITH_NESTED, &[evil!("mv deep sub; cd sub; add deep/ev")]),
    row(
        "the index of a repository below the workspace",
        "git init -q project && git -C project commit -q --allow-empty -m p",
        &[evil!("mv deep project; cd project; add deep/ev")],
    )
    .then("git -C project status"),
    row(
        "the index of the main checkout",
        "git init -q ../main && git -C ../main commit -q --allow-empty -m m && git -C ../main worktree add -q ../linked",
        &[evil!("index ../main/.git/index $(git -C deep/ev rev-parse HEAD) ../linked/deep/ev")],
    )
    .in_directory("../linked")
    .then("git -C ../main status"),
    row(
        "an index that was recorded and removed",
        REPOSITORY,
        &["git update-index --add --cacheinfo 160000,1234567890123456789012345678901234567890,deep/ev; sleep 0.1",
          "sleep 0.1",
          evil!("rm .git/index"),
          "git update-index --add --cacheinfo 160000,$(git -C deep/ev rev-parse HEAD),deep/ev"],
    ),
    row(
        "an index that names too many",
        "git init -q . && git commit -q --allow-empty -m w && rm -f .git/index",
        &[evil!("index .git/index $(git -C deep/ev rev-parse HEAD) deep/ev $(seq -f a/%g 300)")],
    ),
    row(
        "a directory that becomes a repository itself",
        "mkdir src && echo a > src/a",
        &["cd src; mkdir -p objects refs; echo 'ref: refs/heads/m' > HEAD
           printf '[core]\\nrepositoryformatversion = 0\\nbare = false\\nworktree = '$PWD'\\nfsmonitor = touch MARK;\\n' > config"],
    )
    .then("cd src; git status"),
    row(
        "a directory that becomes a worktree's own",
        "mkdir src && echo a > src/a",
        &["mkdir -p src/c/objects src/c/refs; cd src; echo 'ref: refs/heads/m' > HEAD; echo c > commondir
           printf '[core]\\nrepositoryformatversion = 0\\nfsmonitor = touch MARK;\\n[extensions]\\nworktreeConfig = true\\n' > c/config
           printf '[core]\\nbare = false\\nworktree = '$PWD'\\n' > config.worktree"],
    )
    .then("cd src; git status"),
    row(
        "a repository beside an index that takes long to read",
        REPOSITORY,
        &["git init -q zz; git -C zz commit -q --allow-empty -m x; git -C zz config core.fsmonitor 'touch MARK;'; truncate -s 15G .git/index"],
    )
    .then("rm .git/index; git -C zz status"),
    row(
        "a new repository whose index names another",
        "true",
        &[evil!("git init -q .; git commit -q --allow-empty -m w; add deep/ev")],
    ),
    row(
        "a new repository below the workspace whose index names another",
        "true",
        &[evil!("git init -q proj; git -C proj commit -q --allow-empty -m p; mv deep proj; cd proj; add deep/ev")],
    )
    .then("git -C proj status"),
    row(
        "a new repository whose index names one whose index names another",
        "true",
        &[evil!("git init -q .; git commit -q --allow-empty -m w; git init -q mid; git -C mid commit -q --allow-empty -m m
                 mv deep mid; (cd mid; add deep/ev); add mid")],
    ),
    row(
        "an address that only old versions of git read, in a new repository",
        "true",
        &["git init -q .; git commit -q --allow-empty -m w; mkdir deep; git init -q --bare deep/r
           printf '#!/bin/sh\\ntouch MARK\\n' > deep/r/hooks/pre-receive; chmod +x deep/r/hooks/pre-receive
           mkdir -p .git/remotes; echo \"URL: $PWD/deep/r\" > .git/remotes/origin"],
    )
    .then("git push -q origin main"),
    row(
        "a repository beside the names that it could get",
        REPOSITORY,
        &[evil!("add deep/ev; mkdir deep/ev/.git-set-aside; for i in $(seq 100); do mkdir deep/ev/.git-set-aside-$i; done")],
    ),
    row(
        "one of more repositories than are protected",
        "for i in $(seq 70); do git init -q r$i; git -C r$i commit -q --allow-empty -m r; done",
        &["for d in r*; do printf '[core]\\nfsmonitor = touch MARK;\\n' >> $d/.git/config; done"],
    )
    .then("for d in r*; do git -C $d status; done"),
    row(
        "a hook of one of more repositories than are protected",
        "for i in $(seq 70); do git init -q --bare r$i; done; git init -q src; git -C src commit -q --allow-empty -m s",
        &["for d in r*; do printf '#!/bin/sh\\ntouch MARK\\n' > $d/hooks/pre-receive; chmod +x $d/hooks/pre-receive; done"],
    )
    .then("for d in r*; do git -C src push -q ../$d main; done"),
    row("a link to a repository", REPOSITORY, &[evil!("ln -s deep/ev proj")]).then("cd proj; git status"),
    row(
        "a workspace that becomes a repository",
        "true",
        &["git init -q .; git config core.fsmonitor 'touch MARK;'"],
    ),
    row("the strategy of an unfinished operation", UNFINISHED, &[strategy!("[options]\\n\\tstrategy = a/x\\n")])
        .then("git cherry-pick --continue"),
    row("a strategy in capitals", UNFINISHED, &[strategy!("[options]\\n\\tSTRATEGY = a/x\\n")])
        .then("git cherry-pick --continue"),
    row("a strategy beside its section", UNFINISHED, &[strategy!("[options] strategy = a/x\\n")])
        .then("git cherry-pick --continue"),
    row("a strategy on two lines", UNFINISHED, &[strategy!("[options]\\n\\tstrategy = a\\\\\\n/x\\n")])
        .then("git cherry-pick --continue"),
    row(
        "a strategy that is moved to its place",
        UNFINISHED,
        &[strategy!("[options]\\n\\tstrategy = a/x\\n", "; mv .git/sequencer .git/prepared; sleep 0.1"),
          "mv .git/prepared .git/sequencer"],
    )
    .then("git cherry-pick --continue"),
    row(
        "an address that only old versions of git read",
        "git init -q . && git commit -q --allow-empty -m w",
        &["mkdir deep; git init -q --bare deep/r; printf '#!/bin/sh\\ntouch MARK\\n' > deep/r/hooks/pre-receive; chmod +x deep/r/hooks/pre-receive
           mkdir -p .git/remotes; echo \"URL: $PWD/deep/r\" > .git/remotes/origin"],
    )
    .then("git push -q origin main"),
    row(
        "an address that is moved to its place",
        "git init -q . && git commit -q --allow-empty -m w",
        &["mkdir deep; git init -q --bare deep/r; printf '#!/bin/sh\\ntouch MARK\\n' > deep/r/hooks/pre-receive; chmod +x deep/r/hooks/pre-receive
           mkdir -p .git/prepared; echo \"URL: $PWD/deep/r\" > .git/prepared/origin; sleep 0.1",
          "mv .git/prepared .git/remotes"],
    )
    .then("git push -q origin main"),
    row(
        "a link in a directory that is moved to its place",
        REPOSITORY,
        &["mkdir -p .git/prepared/refs/heads; cp .git/logs/HEAD .git/prepared/; ln -s MARK .git/prepared/refs/heads/main; sleep 0.1",
          "mv .git/logs .git/old; mv .git/prepared .git/logs"],
    )
    .then("git commit -q --allow-empty -m x"),
    row(
        "a repository that is moved to where the index names one",
        REPOSITORY,
        &["mkdir deep; git init -q deep/prepared; git -C deep/prepared commit -q --allow-empty -m x
           git -C deep/prepared config core.fsmonitor 'touch MARK;'
           git update-index --add --cacheinfo 160000,$(git -C deep/prepared rev-parse HEAD),deep/ev; sleep 0.1",
          "mv deep/prepared deep/ev"],
    ),
    row(
        "a repository that is moved to where a link leads",
        REPOSITORY,
        &["mkdir deep; git init -q deep/prepared; git -C deep/prepared commit -q --allow-empty -m x
           git -C deep/prepared config core.fsmonitor 'touch MARK;'; ln -s deep/ev proj; sleep 0.1",
          "mv deep/prepared deep/ev"],
    )
    .then("cd proj; git status"),
    row(
        "a repository with more variables than are kept",
        REPOSITORY,
        &["git init -q zz; git -C zz commit -q --allow-empty -m x; { echo '[a]'; yes b=1 | head -4200; } >> zz/.git/config
           git -C zz config core.fsmonitor 'touch MARK;'"],
    )
    .then("git -C zz status"),
    row(
        "an address that names a program",
        REPOSITORY,
        &["git init -q zz; git -C zz commit -q --allow-empty -m x; git -C zz config protocol.ext.allow always
           git -C zz remote add origin 'ext::sh -c touch% MARK'"],
    )
    .then("git -C zz fetch -q origin"),
    row(
        "a submodule whose checkout was deleted",
        "git init -q ../sub_origin && git -C ../sub_origin commit -q --allow-empty -m s
         git init -q . && git commit -q --allow-empty -m w
         git submodule --quiet add ../sub_origin libs/sub && git commit -qm sub && rm -rf libs/sub",
        &["mkdir -p libs; git init -q libs/sub; git -C libs/sub commit -q --allow-empty -m x; git -C libs/sub config core.fsmonitor 'touch MARK;'"],
    ),
    row(
        "a submodule's pointer",
        SUBMODULES,
        &["cp -r .git/modules/libs/sub evil && printf '[core]\\nfsmonitor = touch MARK;\\n' >> evil/config
           sed -i '/worktree/d' evil/config; rm -f libs/sub/.git; echo 'gitdir: ../../evil' > libs/sub/.git"],
    ),
    row(
        "a submodule's pointer at depth",
        SUBMODULES,
        &["cp -r .git/modules/libs/sub/modules/nested evil && printf '[core]\\nfsmonitor = touch MARK;\\n' >> evil/config
           sed -i '/worktree/d' evil/config; rm -f libs/sub/nested/.git; echo 'gitdir: ../../../evil' > libs/sub/nested/.git"],
    ),
    row(
        "a submodule without .gitmodules",
        SUBMODULES,
        &["rm -f .gitmodules; printf '[submodule \"libs/sub\"]\\n\\tpath = \"libs/sub\"\\n\\turl = x\\n' > .gitmodules; true",
          "cp -r .git/modules/libs/sub evil && printf '[core]\\nfsmonitor = touch MARK;\\n' >> evil/config
           sed -i '/worktree/d' evil/config; rm -f libs/sub/.git; echo 'gitdir: ../../evil' > libs/sub/.git"],
    ),
    row(
        "a submodule moved away",
        SUBMODULES,
        &["cp -r .git/modules/libs/sub evil; printf '[core]\\nfsmonitor = touch MARK;\\n' >> evil/config
           sed -i '/worktree/d' evil/config; mv libs moved; mkdir -p libs/sub; echo 'gitdir: ../../evil' > libs/sub/.git"],
    ),
    row(
        "a submodule's configuration",
        SUBMODULES,
        &["git -C libs/sub config core.fsmonitor 'touch MARK;'"],
    ),
    row(
        "a submodule that is not checked out",
        "git init -q ../sub_origin && git -C ../sub_origin commit -q --allow-empty -m s
         git init -q ../first && git -C ../first submodule --quiet add ../sub_origin sub && git -C ../first commit -qm s
         git clone -q ../first . && git status --short",
        &["git init -q sub; git -C sub commit -q --allow-empty -m x; git -C sub config core.fsmonitor 'touch MARK;'"],
    ),
    row(
        "a submodule of the repository above",
        SUBMODULES,
        &["cp -r sub evil; git init -q evil/g; printf '[core]\\nfsmonitor = touch MARK;\\n' >> evil/g/.git/config
           git -C evil/g commit -q --allow-empty -m x; rm -f sub/.git; echo 'gitdir: ../evil/g/.git' > sub/.git"],
    )
    .in_directory("libs"),
    row(
        "a worktree with a relative path",
        "git init -q . && git commit -q --allow-empty -m w && git worktree add -q wt
         echo ../../../wt/.git > .git/worktrees/wt/gitdir && echo 'gitdir: ../.git/worktrees/wt' > wt/.git",
        &["git init -q evil; git -C evil commit -q --allow-empty -m x; git -C evil config core.fsmonitor 'touch MARK;'
           rm -f wt/.git; echo 'gitdir: ../evil/.git' > wt/.git"],
    )
    .then("git -C wt status"),
    row(
        "a worktree's index",
        "git init -q . && git commit -q --allow-empty -m w && git worktree add -q wt",
        &["git init -q wt/q; git -C wt/q commit -q --allow-empty -m x; git -C wt/q config core.fsmonitor 'touch MARK;'",
          "git -C wt add q 2>/dev/null"],
    )
    .then("git -C wt status"),
    row(
        "a new worktree that redirects",
        REPOSITORY,
        &["git init -q evil; git -C evil commit -q --allow-empty -m x; git -C evil config core.fsmonitor 'touch MARK;'
           git worktree add -q wt; echo ../../../evil/.git > .git/worktrees/wt/commondir"],
    )
    .then("git -C wt status"),
    row(
        "a submodule of a linked worktree",
        "git init -q ../sub_origin && git -C ../sub_origin commit -q --allow-empty -m s
         git init -q ../main && git -C ../main submodule --quiet add ../sub_origin sub && git -C ../main commit -qm s
         git -C ../main worktree add -q ../linked && git -C ../linked submodule --quiet update --init",
        &["printf '[core]\\nfsmonitor = touch MARK;\\n' >> ../main/.git/worktrees/linked/modules/sub/config
           git init -q evil; git -C evil commit -q --allow-empty -m x; git -C evil config core.fsmonitor 'touch MARK;'
           rm -f sub/.git; echo 'gitdir: ../evil/.git' > sub/.git"],
    )
    .in_directory("../linked")
    .then("git -C ../linked status"),
    row(
        "a nested repository that the index names",
        UNABSORBED,
        &["git -C deep/er/q config core.fsmonitor 'touch MARK;'"],
    ),
    row(
        "a nested repository's hooks",
        UNABSORBED,
        &["mkdir -p deep/er/q/.git/hooks; printf '#!/bin/sh\\ntouch MARK\\n' > deep/er/q/.git/hooks/post-checkout
           chmod +x deep/er/q/.git/hooks/post-checkout"],
    )
    .then("git -C deep/er/q checkout -q -b other"),
    row(
        "a nested repository that a run adds to the index",
        REPOSITORY,
        &["mkdir -p x/y; git init -q x/y/q; git -C x/y/q commit -q --allow-empty -m x; git -C x/y/q config core.fsmonitor 'touch MARK;'",
          "git add x 2>/dev/null"],
    ),
    row(
        "a nested repository in a split index",
        REPOSITORY,
        &["mkdir -p x/y; git init -q x/y/q; git -C x/y/q commit -q --allow-empty -m x; git -C x/y/q config core.fsmonitor 'touch MARK;'",
          "git update-index --split-index; git add x 2>/dev/null; git update-index --split-index"],
    ),
    row(
        "a nested repository by a mode with permissions",
        REPOSITORY,
        &["mkdir -p x/y; git init -q x/y/q; git -C x/y/q commit -q --allow-empty -m x; git -C x/y/q config core.fsmonitor 'touch MARK;'",
          "git add x 2>/dev/null; python3 - <<'E'
import hashlib
path = '.git/index'
data = bytearray(open(path, 'rb').read())[:-20]
at = data.index(b'x/y/q') - 62 + 24
assert data[at:at + 4] == (0o160000).to_bytes(4, 'big')
data[at:at + 4] = (0o160644).to_bytes(4, 'big')
open(path, 'wb').write(bytes(data) + hashlib.sha1(data).digest())
E"],
    ),
    row(
        "a repository directly below the workspace",
        "git init -q project && git -C project commit -q --allow-empty -m p",
        &["git -C project config core.fsmonitor 'touch MARK;'"],
    )
    .then("git -C project status"),
    row(
        "the hooks path",
        "git init -q . && mkdir -p .husky/_ && printf '#!/bin/sh\\n\"$(dirname \"$0\")/../pre-commit\"\\n' > .husky/_/pre-commit
         printf '#!/bin/sh\\n' > .husky/pre-commit && chmod +x .husky/_/pre-commit .husky/pre-commit
         git add -A && git commit -qm h && git config core.hooksPath .husky/_",
        &["echo 'touch MARK' >> .husky/_/pre-commit; echo 'touch MARK' >> .husky/pre-commit; mv .husky h
           mkdir -p .husky/_; printf '#!/bin/sh\\ntouch MARK\\n' > .husky/_/pre-commit; chmod +x .husky/_/pre-commit"],
    )
    .then("git commit -q --allow-empty -m x"),
    row(
        "a hooks path that does not exist",
        "git init -q . && git commit -q --allow-empty -m w && git config core.hooksPath tools/hooks",
        &["mkdir -p tools/hooks; printf '#!/bin/sh\\ntouch MARK\\n' > tools/hooks/pre-commit; chmod +x tools/hooks/pre-commit"],
    )
    .then("git commit -q --allow-empty -m x"),
    row(
        "a hooks path in the git directory",
        "git init -q . && git commit -q --allow-empty -m w && mkdir .git/own && git config core.hooksPath .git/own",
        &["printf '#!/bin/sh\\ntouch MARK\\n' > .git/own/pre-commit; chmod +x .git/own/pre-commit"],
    )
    .then("git commit -q --allow-empty -m x"),
    row(
        "a hooks path of the user's",
        "git config --global core.hooksPath .githooks && git init -q . && git commit -q --allow-empty -m w && mkdir .githooks",
        &["printf '#!/bin/sh\\ntouch MARK\\n' > .githooks/pre-commit; chmod +x .githooks/pre-commit"],
    )
    .then("git commit -q --allow-empty -m x"),
    row(
        "an included file",
        "git init -q . && git commit -q --allow-empty -m w && echo > .gitconfig && git config include.path ../.gitconfig",
        &["printf '[core]\\nfsmonitor = touch MARK;\\n' > .gitconfig"],
    ),
    row(
        "an included file that does not exist",
        "git init -q . && git commit -q --allow-empty -m w && git config include.path ../.gitconfig",
        &["printf '[core]\\nfsmonitor = touch MARK;\\n' > .gitconfig"],
    ),
    row(
        "what an included file includes",
        "git init -q . && git commit -q --allow-empty -m w && mkdir tools && echo > tools/more
         printf '[include]\\npath = tools/more\\n' > .gitconfig && git config include.path ../.gitconfig",
        &["printf '[core]\\nfsmonitor = touch MARK;\\n' > tools/more"],
    ),
    row(
        "the file system monitor's program",
        "git init -q . && git commit -q --allow-empty -m w && printf '#!/bin/sh\\n' > tool && chmod +x tool
         git config core.fsmonitor ./tool",
        &["printf '#!/bin/sh\\ntouch MARK\\n' > new; chmod +x new; mv new tool; echo 'touch MARK' >> tool"],
    ),
    row(
        "a program that does not exist yet",
        "git init -q . && git commit -q --allow-empty -m w && git config core.fsmonitor ./tool",
        &["printf '#!/bin/sh\\ntouch MARK\\n' > tool; chmod +x tool"],
    ),
    row(
        "a filter's script",
        "git init -q . && echo cat > f.sh && echo '*.txt filter=x' > .gitattributes && echo a > a.txt
         git config filter.x.clean 'sh ./f.sh' && git add -A && git commit -qm f",
        &["echo 'touch MARK; cat' > f.sh; echo b > a.txt; touch a.txt"],
    ),
    row(
        "a filter's script by its place in the checkout",
        "git init -q . && mkdir tools && echo cat > tools/f && echo '*.txt filter=x' > .gitattributes && echo a > a.txt
         git config filter.x.clean 'sh \"$(git rev-parse --show-toplevel)/tools/f\"' && git add -A && git commit -qm f",
        &["mv tools t; mkdir tools; echo 'touch MARK; cat' > tools/f; echo b > a.txt"],
    ),
    row(
        "a program for differences",
        "git init -q . && echo cat > d.sh && echo '*.txt diff=x' > .gitattributes && echo a > a.txt
         git config diff.x.textconv 'sh d.sh' && git add -A && git commit -qm d",
        &["echo 'touch MARK; cat' > d.sh; echo b > a.txt"],
    ),
    row(
        "worktrees of a repository below the workspace",
        "git init -q main && git -C main commit -q --allow-empty -m m && git -C main worktree add -q ../wt",
        &["mkdir -p d; cp -r main/.git d/evil; rm -rf d/evil/worktrees; git config -f d/evil/config core.fsmonitor 'touch MARK;'
           echo $PWD/d/evil > main/.git/worktrees/wt/commondir
           mv main/.git/worktrees w; mkdir -p main/.git/worktrees; cp -r w/wt main/.git/worktrees/wt; echo $PWD/d/evil > main/.git/worktrees/wt/commondir"],
    )
    .then("git -C wt status"),
    row(
        "worktrees of a bare repository beside them",
        BARE_WITH_WORKTREE,
        &["mkdir -p d; cp -r repo.git d/evil; rm -rf d/evil/worktrees; git config -f d/evil/config core.fsmonitor 'touch MARK;'
           git config -f d/evil/config core.bare false; echo $PWD/d/evil > repo.git/worktrees/wt/commondir
           printf '[core]\\nfsmonitor = touch MARK;\\n' >> repo.git/config"],
    )
    .then("git -C wt status; git -C repo.git status"),
    row(
        "worktrees of a bare repository that is the workspace",
        BARE_WITH_WORKTREE,
        &["mkdir -p d; cp -r HEAD config objects refs d/; git config -f d/config core.fsmonitor 'touch MARK;'
           git config -f d/config core.bare false; echo $PWD/d > worktrees/wt/commondir"],
    )
    .in_directory("repo.git")
    .then("git -C wt status"),
    row(
        "a repository whose name says that it was set aside",
        REPOSITORY,
        &["git init -q lib-set-aside; git -C lib-set-aside commit -q --allow-empty -m x
           git -C lib-set-aside config core.fsmonitor 'touch MARK;'"],
    )
    .then("git -C lib-set-aside status"),
    row(
        "a repository that a second run completes",
        "mkdir src && echo a > src/a",
        &["cd src; mkdir objects; echo 'ref: refs/heads/m' > HEAD
           printf '[core]\\nrepositoryformatversion = 0\\nbare = false\\nworktree = '$PWD'\\nfsmonitor = touch MARK;\\n' > config; sleep 0.1",
          "mkdir src/refs"],
    )
    .then("cd src; git status"),
    row(
        "a workspace that a second run makes a repository",
        "true",
        &["mkdir objects; echo 'ref: refs/heads/m' > HEAD
           printf '[core]\\nrepositoryformatversion = 0\\nbare = false\\nworktree = '$PWD'\\nfsmonitor = touch MARK;\\n' > config; sleep 0.1",
          "mkdir refs"],
    ),
    row(
        "a repository that is moved up without a .git",
        "mkdir src",
        &["mkdir -p d/x/objects d/x/refs; cd d/x; echo 'ref: refs/heads/m' > HEAD
           printf '[core]\\nrepositoryformatversion = 0\\nbare = false\\nworktree = ../x\\nfsmonitor = touch MARK;\\n' > config; sleep 0.1",
          "mv d/x x"],
    )
    .then("cd x; git status"),
    row(
        "a git directory that a second run fills",
        REPOSITORY,
        &["mkdir -p x/.git; sleep 0.1",
          "git init -q tmp; git -C tmp commit -q --allow-empty -m x; git -C tmp config core.fsmonitor 'touch MARK;'; cp -r tmp/.git/. x/.git/; rm -rf tmp"],
    )
    .then("git -C x status"),
    row(
        "a .git file that names another worktree",
        "git init -q . && git commit -q --allow-empty -m w && git worktree add -q wt",
        &["mkdir x; echo x >> .git/info/exclude; echo 'gitdir: ../.git/worktrees/wt' > x/.git
           git init -q x/ev; git -C x/ev commit -q --allow-empty -m x; git -C x/ev config core.fsmonitor 'touch MARK;'
           GIT_INDEX_FILE=$PWD/.git/worktrees/wt/index git update-index --add --cacheinfo 160000,$(git -C x/ev rev-parse HEAD),ev"],
    )
    .then("git -C x status"),
    row(
        "a new worktree in a directory that cannot be listed",
        REPOSITORY,
        &["git init -q d/evil; git -C d/evil commit -q --allow-empty -m x; git -C d/evil config core.fsmonitor 'touch MARK;'
           echo d >> .git/info/exclude; git worktree add -q wt; echo ../../../d/evil/.git > .git/worktrees/wt/commondir; chmod 0311 .git/worktrees"],
    )
    .then("git -C wt status"),
    row(
        "a worktree in a directory that a run made unlistable",
        "git init -q . && git commit -q --allow-empty -m w && git worktree add -q wt",
        &["chmod 0311 .git/worktrees",
          "git init -q d/evil; git -C d/evil commit -q --allow-empty -m x; git -C d/evil config core.fsmonitor 'touch MARK;'
           echo d >> .git/info/exclude; echo ../../../d/evil/.git > .git/worktrees/wt/commondir"],
    )
    .then("git -C wt status"),
    row(
        "a repository in a workspace that cannot be listed",
        REPOSITORY,
        &["git init -q zz; git -C zz commit -q --allow-empty -m x; git -C zz config core.fsmonitor 'touch MARK;'; chmod 0311 ."],
    )
    .then("chmod 0755 .; git -C zz status"),
    row(
        "a repository that cannot be listed",
        REPOSITORY,
        &["git init -q zz; git -C zz commit -q --allow-empty -m x; git -C zz config core.fsmonitor 'touch MARK;'; chmod 0311 zz zz/.git"],
    )
    .then("git -C zz status"),
    row(
        "a hook that is a link",
        "git init -q . && mkdir scripts && printf '#!/bin/sh\\n' > scripts/pre-commit && chmod +x scripts/pre-commit
         ln -s ../../scripts/pre-commit .git/hooks/pre-commit && git add -A && git commit -qm h",
        &["echo 'touch MARK' >> scripts/pre-commit; mv scripts s; mkdir scripts
           printf '#!/bin/sh\\ntouch MARK\\n' > scripts/pre-commit; chmod +x scripts/pre-commit"],
    )
    .then("git commit -q --allow-empty -m x"),
    row(
        "the workspace's own hooks and configuration",
        REPOSITORY,
        &["git config core.fsmonitor 'touch MARK;'; printf '[core]\\nfsmonitor = touch MARK;\\n' >> .git/config
           printf '[core]\\nfsmonitor = touch MARK;\\n' > .git/config.worktree; cp -r .git g; git --git-dir=g config core.fsmonitor 'touch MARK;'
           echo ../g > .git/commondir; mv .git old; mv g .git"],
    ),
];

impl Row {
    const fn in_directory(mut self, cwd: &'static str) -> Self {
        self.cwd = cwd;
        self
    }

    const fn then(mut self, then: &'static str) -> Self {
        self.then = then;
        self
    }
}

/// A world in which the user has made what a row says, and the mark that an attack leaves.
fn prepared(row: &Row) -> (World, PathBuf) {
    let world = World::new();
    world.write(
        "home/.gitconfig",
        "[user]\nname = n\nemail = e@x\n[init]\ndefaultBranch = main\n[protocol \"file\"]\nallow = always\n[advice]\naddEmbeddedRepo = false\n",
    );
    let mark = world.root().join("PWNED");
    let (ok, text) = on_host(&world, &world.work(), row.host);
    assert!(ok, "{}: {text}", row.name);
    (world, mark)
}

fn on_host(world: &World, cwd: &Path, script: &str) -> (bool, String) {
    let output = Command::new("sh")
        .args(["-ec", script])
        .current_dir(cwd)
        .env("HOME", world.home())
        .env_remove("XDG_CONFIG_HOME")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .bounded_output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// What users and editors do all day.
fn use_git(world: &World, row: &Row) -> String {
    let usual =
        "git status; git diff; git log -1; git submodule status; git stash list; git add -A";
    let script = format!("set +e; cd '{}'; {usual}; {}; exit 0", world.work().display(), row.then);
    on_host(world, &world.work(), &script).1
}

#[test]
fn the_hosts_git_executes_nothing_of_a_hostile_run() {
    let mut executed = Vec::new();
    for row in ROWS {
        // Without the fence the attack works: else the row shows nothing.
        let (world, mark) = prepared(row);
        for script in row.runs {
            let script = script.replace("MARK", &mark.display().to_string());
            on_host(&world, &world.work().join(row.cwd), &format!("set +e; {script}"));
        }
        let _ = std::fs::remove_file(&mark);
        let text = use_git(&world, row);
        assert!(mark.exists(), "{}: does not work without the fence\n{text}", row.name);

        let (world, mark) = prepared(row);
        let mut told = String::new();
        for script in row.runs {
            let script = script.replace("MARK", &mark.display().to_string());
            let cwd = world.work().join(row.cwd);
            let flags = ["--cwd", cwd.to_str().unwrap()];
            let (_, outcome) = world.sh_json(&flags, &script);
            told = format!("{told}{outcome}\n");
        }
        let text = use_git(&world, row);
        if mark.exists() {
            executed.push(format!("{}\n{text}\n{told}", row.name));
        }
    }
    assert!(executed.is_empty(), "executed on the host:\n{}", executed.join("\n"));
}

/// A link among git's own files, and what the host does that would follow it.
struct Link {
    host: &'static str,
    /// In this git directory.
    git_dir: &'static str,
    name: &'static str,
    target: &'static str,
    /// What the run does besides.
    more: &'static str,
    then: &'static str,
}

const fn link(name: &'static str, target: &'static str, then: &'static str) -> Link {
    Link { host: REPOSITORY, git_dir: ".git", name, target, more: "true", then }
}

const fn bare_link(name: &'static str, target: &'static str, then: &'static str) -> Link {
    Link { host: BARE_WITH_WORKTREE, git_dir: "repo.git", name, target, more: "true", then }
}

const LINKS: &[Link] = &[
    link("COMMIT_EDITMSG", "rc", "git commit -q --allow-empty -m x"),
    link("logs/HEAD", "rc", "git commit -q --allow-empty -m x"),
    link("FETCH_HEAD", "rc", "git fetch -q . main"),
    link("worktrees", "docs", "git worktree prune"),
    link("worktrees/x", "docs", "git worktree prune"),
    Link {
        more: "chmod 0311 .git",
        ..link("COMMIT_EDITMSG", "rc", "git commit -q --allow-empty -m x")
    },
    Link {
        more: "chmod 0300 .git/logs; chmod 0311 .git",
        ..link("logs/HEAD", "rc", "git commit -q --allow-empty -m x")
    },
    // In a repository that the run made.
    Link {
        host: "true",
        more: "git init -q .; rmdir .git/worktrees",
        ..link("COMMIT_EDITMSG", "rc", "git commit -q --allow-empty -m x")
    },
    // Its place in one name is longer than a name can be.
    Link {
        more: "git symbolic-ref HEAD refs/heads/bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
        ..link(
            "logs/refs/heads/bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
            "rc",
            "git commit -q --allow-empty -m x",
        )
    },
    bare_link("logs/refs/heads/wt", "rc", "git -C wt commit -q --allow-empty -m x"),
    bare_link("FETCH_HEAD", "rc", "git -C repo.git fetch -q . wt"),
    Link {
        host: "git init -q --bare repo.git",
        ..bare_link("worktrees", "docs", "git -C repo.git worktree prune")
    },
];

#[test]
fn no_link_among_gits_files_leads_the_host_out() {
    for Link { host, git_dir, name, target, more, then } in LINKS {
        for fenced in [false, true] {
            let world = World::new();
            world.write("home/rc", "mine\n");
            world.write("home/docs/p/f", "mine\n");
            world.write(
                "home/.gitconfig",
                "[user]\nname = n\nemail = e@x\n[init]\ndefaultBranch = main\n[gc]\nworktreePruneExpire = now\n",
            );
            let (ok, text) = on_host(&world, &world.work(), host);
            assert!(ok, "{text}");
            let to = world.home().join(target);
            let script = format!(
                "mkdir -p {git_dir}/worktrees; [ {name} != worktrees ] || rmdir {git_dir}/worktrees
                 mkdir -p $(dirname {git_dir}/{name}); rm -f {git_dir}/{name}; ln -s {} {git_dir}/{name}; {more}",
                to.display()
            );
            let told = if fenced {
                world.sh_json(&[], &script).1.to_string()
            } else {
                on_host(&world, &world.work(), &script).1
            };
            let text = on_host(&world, &world.work(), &format!("set +e; {then}")).1;
            let rc = std::fs::read_to_string(world.home().join("rc")).unwrap();
            let kept = rc == "mine\n" && world.home().join("docs/p/f").exists();
            assert_eq!(kept, fenced, "{git_dir}/{name}: {then}\n{text}\n{told}");
        }
    }
}

#[test]
fn a_repository_that_another_run_set_aside_cannot_be_put_back() {
    let row = row("two runs", REPOSITORY, &[evil!("add deep/ev; touch ready; sleep 1.5")]);
    let (world, mark) = prepared(&row);
    let first = row.runs[0].replace("MARK", &mark.display().to_string());
    std::thread::scope(|scope| {
        scope.spawn(|| world.sh_json(&[], &first));
        let began = std::time::Instant::now();
        while !world.work().join("ready").exists() {
            assert!(began.elapsed() < ringfence_testing::limit());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let second = "n=0; while [ ! -e deep/ev/.git-set-aside ] && [ $n -lt 300 ]; do sleep 0.1; n=$((n+1)); done
                      cp -r deep/ev/.git-set-aside deep/ev/.git";
        world.sh_json(&["--timeout", "60s"], second);
    });
    let text = use_git(&world, &row);
    assert!(!mark.exists(), "{text}");
}

#[test]
fn what_was_set_aside_is_named_and_can_be_put_back() {
    let row = ROWS.iter().find(|row| row.name.contains("adds to the index")).unwrap();
    let (world, _) = prepared(row);
    world.sh_json(&[], row.runs[0]);
    let (_, outcome) = world.sh_json(&[], row.runs[1]);
    let aside = outcome["workspace"]["set_aside"][0].clone();
    assert_eq!(aside["path"], world.work().join("x/y/q/.git").to_str().unwrap(), "{outcome}");
    let moved_to = PathBuf::from(aside["moved_to"].as_str().unwrap());
    assert!(moved_to.join("config").exists() && !world.work().join("x/y/q/.git").exists());
    // A run that changes nothing of the kind moves nothing.
    let (_, outcome) = world.sh_json(&[], "echo b > b; git add b");
    assert_eq!(outcome["workspace"]["set_aside"].as_array().unwrap().len(), 0, "{outcome}");
}

/// A run chooses how many entries are moved, and not how long the report is.
#[test]
fn more_links_than_are_listed_are_moved_and_counted() {
    let row = row("many links", REPOSITORY, &[]);
    let (world, _) = prepared(&row);
    let (_, outcome) = world.sh_json(
        &[],
        "for i in $(seq 400); do ln -s /nowhere .git/l$i; done; ln -sf /nowhere .git/COMMIT_EDITMSG",
    );
    let aside = outcome["workspace"]["set_aside"].as_array().unwrap();
    assert_eq!(aside.len(), 256, "{outcome}");
    let gaps = outcome["enforcement"]["gaps"].to_string();
    assert!(gaps.contains("145 more entries than are listed were set aside"), "{gaps}");
    let left = std::fs::read_dir(world.work().join(".git")).unwrap().flatten();
    let left: Vec<_> = left
        .filter(|entry| entry.file_type().unwrap().is_symlink())
        .map(|entry| entry.file_name().into_string().unwrap())
        .filter(|name| !name.contains("-set-aside"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A repository of SHA-256 names, with an index, is a plain one.
#[test]
fn an_ordinary_repository_that_a_run_makes_is_left_as_it_is() {
    for script in [
        "git init -q --object-format=sha256 . && echo a > a && git add a && git commit -qm a",
        "git init -q . && echo a > a && git add a && git commit -qm a && git init -q sub && git -C sub commit -q --allow-empty -m s && git add sub && git commit -qm s",
        "git init -q p && cd p && echo a > a && git add a && git commit -qm a && mkdir -p .git/branches && git checkout -q -b b",
        "mkdir o && git -C o init -q && git -C o commit -q --allow-empty -m o && git clone -q o c && git -C c update-index --index-version 4",
    ] {
        let (world, _) = prepared(&row("plain", "true", &[]));
        let (code, outcome) = world.sh_json(&[], script);
        assert_eq!(code, 0, "{outcome}");
        assert_eq!(outcome["workspace"]["set_aside"].as_array().unwrap().len(), 0, "{outcome}");
    }
}

#[test]
fn submodules_come_and_go_with_branches() {
    let row = ROWS.iter().find(|row| row.name == "a submodule's pointer").unwrap();
    let (world, _) = prepared(row);
    let (ok, text) = on_host(&world, &world.work(), "git branch without HEAD~1");
    assert!(ok, "{text}");
    for branch in ["without", "main"] {
        let (code, outcome) =
            world.sh_json(&[], &format!("git checkout -q {branch}; git status --short"));
        assert_eq!(code, 0, "{outcome}");
        let changes = &outcome["workspace"];
        assert_eq!(changes["set_aside"].as_array().unwrap().len(), 0, "{branch}: {outcome}");
    }
    assert!(world.work().join("libs/sub/.git").is_file());
}

#[test]
fn commits_in_a_submodule_are_a_grant() {
    let row = ROWS.iter().find(|row| row.name == "a submodule's pointer").unwrap();
    let (world, mark) = prepared(row);
    let commit = "cd libs/sub && git commit -q --allow-empty -m inside";
    assert_ne!(world.sh(&[], commit).code, 0);
    let modules = world.work().join(".git/modules");
    let grant = ["--rw", modules.to_str().unwrap()];
    let ran = world.sh(&grant, commit);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    // What executes stays protected.
    let attack = format!(
        "git -C libs/sub config core.fsmonitor 'touch {0};'; printf '[core]\\nfsmonitor = touch {0};\\n' >> .git/modules/libs/sub/config; \
         mv .git/modules/libs/sub .git/modules/libs/x; true",
        mark.display()
    );
    world.sh(&grant, &attack);
    use_git(&world, row);
    assert!(!mark.exists());
}

#[test]
fn a_rebase_that_would_go_on_with_a_command_is_reported() {
    let row =
        ROWS.iter().find(|row| row.name == "the workspace's own hooks and configuration").unwrap();
    let (world, _) = prepared(row);
    let script =
        "mkdir .git/rebase-merge; echo 'exec touch /tmp/x' > .git/rebase-merge/git-rebase-todo";
    let (_, outcome) = world.sh_json(&[], script);
    let created = outcome["workspace"]["protected_created"].to_string();
    assert!(created.contains("git-rebase-todo"), "{outcome}");
}

#[test]
fn thousands_of_module_directories_hold_no_start_up() {
    let row = ROWS.iter().find(|row| row.name == "a submodule's pointer").unwrap();
    let (world, _) = prepared(row);
    for i in 0..64 {
        for j in 0..64 {
            let dir = world.work().join(format!(".git/modules/{i:0>100}/{j:0>100}"));
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("HEAD"), "ref: x\n").unwrap();
        }
    }
    let (code, outcome) = world.sh_json(&["--timeout", "30s"], "true");
    assert_eq!(code, 0, "{outcome}");
    let gaps = outcome["enforcement"]["gaps"].to_string();
    assert!(gaps.contains("more directories than are looked at"), "{gaps}");
    // Another workspace of the same user is what it was.
    assert_eq!(World::new().sh(&[], "true").code, 0);
}

#[test]
fn names_in_plans_and_errors_stay_in_their_lines() {
    let row = row("names", REPOSITORY, &[]);
    let (world, _) = prepared(&row);
    let made = "d=$(printf 'x\\033[31m\\nfake line'); mkdir -p \".git/worktrees/$d\"; echo x > \".git/worktrees/$d/gitdir\"";
    world.sh(&[], made);
    let plan = world.ringfence(&["explain", "--", "true"]).stdout;
    assert!(plan.contains("fake line"), "{plan}");
    assert!(!plan.contains('\x1b') && !plan.lines().any(|line| line.starts_with("fake")), "{plan}");
    world.write("work/ringfence.toml", "ro = [\"x\\nringfence: all is well\"]\n");
    let told = world.ringfence(&["run", "--", "true"]).stderr;
    assert!(!told.lines().any(|line| line.starts_with("ringfence: all is well")), "{told}");
}
