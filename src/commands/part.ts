import type { Command } from 'commander';

/** A part of the command line: a kernel command, or a feature's additions. `features/command.ts` lists the parts. */
export interface CommandPart {
  readonly name: string;
  readonly commands?: readonly (() => Command)[];
  /** Additions to other commands, by their names: options, or subcommands. */
  readonly additions?: Readonly<Record<string, (command: Command) => void>>;
  /** Called before `serve` starts without a folder or a database; yields a text to print, or undefined. */
  readonly beforeServe?: (envFile: string | undefined) => Promise<string | undefined>;
}

/** Headings of `sluice --help`, in their order; a command without one is listed under "Commands". */
export const HELP = {
  daily: 'Daily use:',
  flows: 'Flows and their manifests:',
  act: 'Act on deliveries and runs:',
  history: 'Keys, people and other tools:',
  data: 'Database:',
} as const;
