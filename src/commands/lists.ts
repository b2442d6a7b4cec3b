import type { Command } from 'commander';
import { printError } from '../telemetry/terminal.ts';
import { positive } from './context.ts';
import { table } from './table.ts';

/** The options of `withPaging`. */
export interface PagingOptions {
  readonly take: number;
  readonly json?: true;
}

/** The most that the API gives at once. */
const MOST_ROWS = 500;

/** Adds how many rows a list has, and in which form. */
export function withPaging(command: Command): Command {
  return command
    .option(
      '--take <count>',
      `how many, at most ${MOST_ROWS}`,
      (text: string) => Math.min(positive(text), MOST_ROWS),
      50,
    )
    .option('--json', 'print the answer of the API');
}

/** A list as a table. Says so on standard error where there may be more than were taken. */
export function listOrNothing(head: readonly string[], rows: readonly (readonly string[])[], take: number): string {
  if (rows.length === 0) return 'Nothing.\n';
  if (rows.length >= take) printError(`the newest ${take} alone; --take shows more, --until what is older\n`);
  return table(head, rows);
}

/** An ISO 8601 time without its fraction. */
export function secondOf(isoTime: string): string {
  return isoTime.replace(/\.\d+Z$/, 'Z');
}
