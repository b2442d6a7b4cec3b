import type { ChildProcess } from 'node:child_process';

const running = new Set<ChildProcess>();

/** Ends a process with the file that started it: a hook that times out has no handle to stop it with. */
export function endsWithFile<Child extends ChildProcess>(child: Child): Child {
  running.add(child);
  child.once('exit', () => running.delete(child));
  return child;
}

/** Kills the remaining processes. */
export function endLeftChildren(): void {
  for (const child of running) child.kill('SIGKILL');
}

process.once('exit', endLeftChildren);
