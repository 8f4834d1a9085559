const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** age of so many milliseconds in two units at most: 42 s, 12 min, 1 h 05, 26 h, 3 d. */
export function age(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < MINUTE) return `${seconds} s`;
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)} min`;
  const hours = Math.floor(seconds / HOUR);
  if (hours < 10) return `${hours} h ${String(Math.floor((seconds % HOUR) / MINUTE)).padStart(2, "0")}`;
  if (seconds < 2 * DAY) return `${hours} h`;
  return `${Math.floor(seconds / DAY)} d`;
}

/** ageSince a time of the API, at now in milliseconds. */
export function ageSince(time: string, now: number): string {
  return age(now - Date.parse(time));
}

/** between two times of the API. */
export function between(from: string, to: string): string {
  return age(Date.parse(to) - Date.parse(from));
}

/** absolute writes a point in time in the language of the reader. */
export const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** clockTime is the time of day of milliseconds, with the date unless that is the one of now. */
export function clockTime(milliseconds: number, now = Date.now()): string {
  const date = new Date(milliseconds);
  return date.toDateString() === new Date(now).toDateString() ? date.toLocaleTimeString() : absolute.format(date);
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/** count of things, with separators of thousands. */
export const count = (n: number) => whole.format(n);

/** cores of CPU. */
export const cores = (n: number) => (n >= 100 ? whole : short).format(n);

/** bytes in binary units. */
export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (Math.abs(n) >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return `${short.format(n)} ${units[unit]}`;
}

/** ordinal of a place in a line: 1st, 2nd, 3rd, 11th. */
export function ordinal(n: number): string {
  const tens = n % 100;
  const suffix = tens >= 11 && tens <= 13 ? "th" : (["th", "st", "nd", "rd"][n % 10] ?? "th");
  return `${n}${suffix}`;
}

/** plural of a noun that takes an s. */
export const plural = (n: number, noun: string) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

/** shortHash of a revision REF@HASH. */
export function shortHash(revision: string): string {
  return revision.slice(revision.lastIndexOf("@") + 1).slice(0, 7);
}

/** refOf a revision REF@HASH. */
export function refOf(revision: string): string {
  const at = revision.lastIndexOf("@");
  return at < 0 ? "" : revision.slice(0, at);
}

/** visible has a mark in place of each character that steers terminals, or the direction of the text around it. */
export const visible = (text: string) => text.replace(/[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u200E\u200F\u202A-\u202E\u2066-\u2069]/g, "\uFFFD");
