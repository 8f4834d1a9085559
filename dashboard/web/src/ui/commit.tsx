import type { Commit } from "../api/types";
import { absolute, shortHash } from "../data/format";

/** CommitText is a commit beside a run: short hash and subject; ref, author and time in its tip. */
export function CommitText({ commit, author = false }: { commit: Commit | undefined; author?: boolean }) {
  if (!commit) return <span class="dim">–</span>;
  const tip = [commit.revision, commit.hash, commit.subject, commit.author, commit.time && absolute.format(new Date(commit.time))].filter(Boolean).join("\n");
  return (
    <span class="commit" title={tip}>
      <span class="mono">{shortHash(commit.hash || commit.revision)}</span>
      {commit.subject ? <span class="subject">{commit.subject}</span> : null}
      {author && commit.author ? <span class="dim">{commit.author}</span> : null}
    </span>
  );
}
