/** throttle makes run start at once, and again only when it has ended and interval milliseconds have passed since it began. */
export function throttle(run: () => Promise<void> | void, interval: number): () => void {
  let began = -Infinity;
  let busy = false;
  let wanted = false;
  let timer: ReturnType<typeof setTimeout> | undefined;

  async function start(): Promise<void> {
    timer = undefined;
    wanted = false;
    busy = true;
    began = performance.now();
    try {
      await run();
    } finally {
      busy = false;
      if (wanted) schedule();
    }
  }
  function schedule(): void {
    timer ??= setTimeout(() => void start(), Math.max(0, began + interval - performance.now()));
  }
  return () => {
    if (busy) wanted = true;
    else if (timer === undefined && performance.now() - began >= interval) void start();
    else schedule();
  };
}
