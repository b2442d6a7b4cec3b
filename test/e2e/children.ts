import type { ChildProcess } from 'node:child_process';

const running = new Set<ChildProcess>();

/** Notes a process, to be ended with the file that started it: a hook that times out has no handle of it to stop. */
export function endsWithFile<Child extends ChildProcess>(child: Child): Child {
  running.add(child);
  child.once('exit', () => running.delete(child));
  return child;
}

/** Ends the processes that are left. */
export function endLeftChildren(): void {
  for (const child of running) child.kill('SIGKILL');
}

process.once('exit', endLeftChildren);
