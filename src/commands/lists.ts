import type { Command } from 'commander';
import { MAX_NAMES, nearestName } from '../manifest/issues.ts';
import { plainName } from '../model/plain-name.ts';
import { printable } from '../model/text.ts';
import { printError } from '../telemetry/terminal.ts';
import { positive } from './context.ts';
import { table } from './table.ts';

/** The options of `withPaging`. */
export interface PagingOptions {
  readonly take: number;
  readonly json?: true;
}

/** The most rows that the API returns at once. */
const MOST_ROWS = 500;

/** Adds the options for the number of rows and the output format. */
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

/** A list as a table. Reports on standard error if there may be more rows than requested. */
export function listOrNothing(head: readonly string[], rows: readonly (readonly string[])[], take: number): string {
  if (rows.length === 0) return 'Nothing.\n';
  const more = take < MOST_ROWS ? '--take shows more, --until what is older' : '--until shows what is older';
  if (rows.length >= take) printError(`the newest ${take} alone; ${more}\n`);
  return table(head, rows);
}

/** An ISO 8601 time without its fraction. */
export function secondOf(isoTime: string): string {
  return isoTime.replace(/\.\d+Z$/, 'Z');
}

/** More suggestions would not help. */
const MOST_MEANT = 5;
const MOST_LISTED = 12;

/** Known names that may have been meant: with a similar spelling, or one contains the other. */
export function namesLike(wanted: string, known: readonly string[]): string[] {
  const plain = plainName(wanted);
  const isPart = (part: string, whole: string) => part.length > 2 && whole.includes(part);
  const parts = known.filter((name) => isPart(plain, plainName(name)) || isPart(plainName(name), plain));
  const nearest: string[] = [];
  for (let at = 0; at < known.length; at += MAX_NAMES) {
    nearest.push(...[nearestName(wanted, known.slice(at, at + MAX_NAMES))].filter((name) => name !== undefined));
  }
  return [...new Set([...nearest, ...parts])].slice(0, MOST_MEANT);
}

/** Such as `; did you mean "Stripe"?`; empty without a name. */
export function meant(names: readonly string[]): string {
  return names.length === 0 ? '' : `; did you mean ${names.map((name) => `"${printable(name)}"`).join(' or ')}?`;
}

/** Message that something does not exist, with a suggestion, or else a list of existing names. */
export function noSuch(what: string, wanted: string, known: readonly string[]): string {
  const said = `There is no ${what} "${wanted}"`;
  if (known.length === 0) return `${said}, and no other`;
  const like = meant(namesLike(wanted, known));
  if (like !== '') return `${said}${like}`;
  const listed = known.slice(0, MOST_LISTED).map((name) => `\n  ${printable(name)}`);
  const more = known.length > MOST_LISTED ? `\n  … and ${known.length - MOST_LISTED} more` : '';
  return `${said}; the ${what}s are:${listed.join('')}${more}`;
}
