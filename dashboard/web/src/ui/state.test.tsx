import { render } from "preact";
import { describe, expect, it } from "vitest";
import { byAttention, signOf, State, states } from "./state";

function shown(node: preact.ComponentChild): HTMLElement {
  const root = document.createElement("div");
  render(node, root);
  return root;
}

describe("states", () => {
  it("differ in shape, so that colour is not needed", () => {
    const shapes = states.map((state) => signOf(state).shape);
    expect(new Set(shapes).size).toBe(states.length);
  });
  it("begin with what wants attention", () => expect(["Succeeded", "Waiting", "Failed", "Running"].sort(byAttention)).toEqual(["Failed", "Waiting", "Running", "Succeeded"]));
  it("that are not known are shown as unknown", () => expect(signOf("Melted")).toEqual(signOf("Unknown")));
});

describe("State", () => {
  it.each<[string, preact.ComponentChild, string, string]>([
    ["waiting with its place", <State state="Waiting" place={2} />, "Waiting · 2nd", "wait"],
    ["running", <State state="Running" />, "Running", "run"],
    ["succeeded on a member that does not answer", <State state="Succeeded" staleSince="2020-01-01T00:00:00Z" />, "Succeeded", "ok"],
  ])("%s", (_, node, text, tone) => {
    const got = shown(node);
    expect(got.textContent).toBe(text);
    expect(got.querySelector(".state")?.classList.contains(tone)).toBe(true);
    expect(got.querySelector("svg")).not.toBeNull();
  });
  it.each<[string, string, string]>([
    ["Unknown", "Unknown · 4 min", "unk"],
    ["Running", "Runninglast news 4 min", "run"],
  ])("%s shows the age of the news of what cannot be reached", (state, text, tone) => {
    const got = shown(<State state={state} staleSince={new Date(Date.now() - 245_000).toISOString()} />);
    expect(got.textContent).toBe(text);
    expect(got.querySelector(".state")?.classList.contains(tone)).toBe(true);
  });
});
