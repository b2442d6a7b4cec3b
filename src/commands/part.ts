import type { Command } from 'commander';

/** What a feature adds to the command line. `features/command.ts` lists the parts. */
export interface CommandPart {
  readonly name: string;
  readonly commands: readonly (() => Command)[];
}
