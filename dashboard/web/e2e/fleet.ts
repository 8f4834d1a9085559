// The fleet that the page shows, as far as specs act on it without the page: through the process that has started it
// (e2e/browser_test.go).

export type Person = "admin" | "writer" | "reader" | "nobody" | "guest";

interface Settings {
  /** Where the controller serves the page. */
  url: string;
  /** Where the process of the tests answers. */
  control: string;
  chromium: string;
  /** That people may see. It has a repository, and Placements gpu-one, north (alpine) and south (basalt and cinder). */
  namespace: string;
  /** That only admin may see. */
  hidden: string;
  members: string[];
  tokens: Record<Person, string>;
}

export const settings = JSON.parse(process.env.MINIFLEET_E2E ?? "null") as Settings;

async function ask<T>(path: string, body: object): Promise<T> {
  const answer = await fetch(settings.control + path, { method: "POST", body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`);
  return ((await answer.json()) as { result: T }).result;
}

/** commit files, push, and wait until the commit was read; files that are empty are removed. */
export const commit = (message: string, files: Record<string, string>, namespace = settings.namespace) => ask<null>("/commit", { namespace, message, files });

/** kubectl on the hub, with all rights. */
export const kubectl = (args: string[], namespace = settings.namespace) => ask<string>("/kubectl", { namespace, args });

/** jobs counts how many Jobs of a MiniCluster members have ever made. */
export const jobs = (name: string) => ask<number>("/jobs", { namespace: settings.namespace, name });

/** member lets its API server hang and go on, or stops and starts it. */
export const member = (name: string, todo: "pause" | "resume" | "stop" | "start") => ask<null>("/member", { name, do: todo });

/** release pods that are held: all of a MiniCluster on a member. */
export const release = (of: string, on: string, exitCode = 0) => ask<number>("/release", { member: on, namespace: settings.namespace, selector: `job-name=${of}`, exitCode });

/** log writes lines to the log of all pods of a member. */
export const log = (on: string, ...lines: string[]) => ask<null>("/log", { member: on, lines });

export const controller = (todo: "stop" | "start") => ask<null>("/controller", { do: todo });

/** people are given the right to see the namespace, or lose it. */
export const people = (name: Person, allow: boolean) => ask<null>("/people", { name, allow });

interface Asked {
  /** Its Placement. */
  on?: "north" | "south";
  size?: number;
  cpu?: string;
  command?: string;
  /** Pods run until they are released. */
  held?: boolean;
  /** How long pods run. */
  seconds?: number;
  exitCode?: number;
}

/** miniCluster is the manifest of one. Its pods run for 3 s, unless told otherwise. */
export function miniCluster(name: string, { on = "north", size = 2, cpu, command = "lmp -in in.reaxc.hns", held, seconds, exitCode }: Asked = {}): string {
  const told = { ...(held ? { hold: "true" } : {}), ...(seconds === undefined ? {} : { seconds: String(seconds) }), ...(exitCode ? { "exit-code": String(exitCode) } : {}) };
  const annotations = Object.fromEntries(Object.entries(told).map(([key, value]) => [`lab.minifleet.dev/${key}`, value]));
  // JSON is YAML.
  return JSON.stringify({
    apiVersion: "flux-framework.org/v1alpha2",
    kind: "MiniCluster",
    metadata: { name, labels: { "minifleet.dev/placement": on } },
    spec: {
      size,
      pod: { annotations },
      containers: [{ image: "example.org/lammps:latest", command, ...(cpu ? { resources: { requests: { cpu }, limits: { cpu } } } : {}) }],
    },
  });
}
