import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { shortcuts, startKeyboard } from "./keyboard";
import { navigate, path } from "./router";

let stop = () => {};
beforeEach(() => {
  document.body.replaceChildren();
  navigate("/nowhere");
  shortcuts.value = false;
  stop = startKeyboard();
});
afterEach(() => stop());

const press = (...keys: string[]) => keys.forEach((key) => (document.activeElement ?? document.body).dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true })));

function put(tag: string, attributes: Record<string, string>): HTMLElement {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  document.body.append(element);
  return element;
}

describe("keyboard", () => {
  it("goes to a view after g", () => {
    press("g", "f");
    expect(path.value).toBe("/");
  });
  it("does not go there by the second key alone", () => {
    press("f");
    expect(path.value).toBe("/nowhere");
  });
  it("goes to the search and to the rows", () => {
    const search = put("input", { type: "search", "data-search": "" });
    const rows = put("div", { tabindex: "0", "data-rows": "" });
    press("j");
    expect(document.activeElement).toBe(rows);
    press("/");
    expect(document.activeElement).toBe(search);
  });
  it("lists the shortcuts", () => {
    press("?");
    expect(shortcuts.value).toBe(true);
  });
  it.each([["input", { type: "text" }], ["textarea", {}], ["select", {}]])("takes nothing from a person who types into %s", (tag, attributes) => {
    put(tag, attributes as Record<string, string>).focus();
    press("?", "g", "f");
    expect([shortcuts.value, path.value]).toEqual([false, "/nowhere"]);
  });
});
