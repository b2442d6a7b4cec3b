import { Command } from 'commander';
import { CommandError, openContext, printJson, reporting } from '../../commands/context.ts';
import { meant, namesLike } from '../../commands/lists.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import { table } from '../../commands/table.ts';
import { beginsWith, plainName } from '../../model/plain-name.ts';
import { print } from '../../telemetry/terminal.ts';
import { CAPTURED } from '../../webhooks/schemes/spec.ts';
import { describeSchemes, type SchemeDescription } from './descriptions.ts';

export interface SchemesOptions {
  readonly json?: true;
}

function makeSchemes(): Command {
  return new Command('schemes')
    .helpGroup(HELP.flows)
    .description('List the signature schemes that a trigger may name, and what each signature covers')
    .argument('[name]', 'a scheme or publisher, or the beginning of its name')
    .option('--json', 'print all details as JSON')
    .action(reporting(printSchemes));
}

export async function printSchemes(name: string | undefined, { json }: SchemesOptions): Promise<void> {
  const found = await findSchemes(name);
  if (json) printJson(found);
  else if (name !== undefined && found[0] !== undefined && found.length === 1) print(card(found[0]));
  else print(schemeTable(found));
}

/** All schemes, or those that match a name. */
export async function findSchemes(name: string | undefined): Promise<readonly SchemeDescription[]> {
  const { extensions } = await openContext();
  const all = describeSchemes(extensions.gates.settings.schemes);
  return name === undefined ? all : foundBy(name, all);
}

const namesOf = ({ name, title, aliases }: SchemeDescription) => [name, ...(title === null ? [] : [title]), ...aliases];

/** By the full name, else by its beginning, else by any part of it. */
function foundBy(text: string, all: readonly SchemeDescription[]): SchemeDescription[] {
  const ways = [
    (names: readonly string[]) => names.some((name) => plainName(name) === plainName(text)),
    (names: readonly string[]) => beginsWith(names, text),
    (names: readonly string[]) => names.some((name) => plainName(name).includes(plainName(text))),
  ];
  const found = ways.map((way) => all.filter((scheme) => way(namesOf(scheme)))).find((some) => some.length > 0);
  if (found !== undefined && plainName(text) !== '') return found;
  const others = 'For other signatures use Custom: docs/publishers/custom.md.';
  throw new CommandError(
    `There is no scheme "${text}"${meant(namesLike(text, all.flatMap(namesOf))) || '.'} ${others}`,
  );
}

/** All details of one scheme. */
function card(scheme: SchemeDescription): string {
  const [head = [], ...rows] = [HEAD, row(scheme), ...keyFormRow(scheme)];
  const lines = rows.flatMap((cells) =>
    cells.map((cell, at) => [head[at] ?? '', cell]).filter(([, cell]) => cell !== ''),
  );
  const more = [
    ['PUBLISHER', scheme.title ?? ''],
    ['ALSO', scheme.aliases.join(', ')],
    ['SOURCE', scheme.source],
    ['CONFIRMED BY', scheme.certainty ?? ''],
    ['NOT CONFIRMED', scheme.unconfirmed ?? ''],
    ['CAPTURED', scheme.captured ?? ''],
    ['RETRIES', scheme.setUp?.retriesInWords ?? ''],
    ['ADDRESSES', scheme.setUp?.presets.join(', ') ?? ''],
  ].filter(([, text]) => text !== '');
  return [...lines, ...more].map(([label = '', text]) => `${label.padEnd(14)}${text}\n`).join('');
}

const HEAD = ['SCHEME', 'HEADER', 'ALGORITHM', 'TIMESTAMP', 'ID HEADER', 'HANDSHAKE', 'COVERS', 'GRADE'];

function schemeTable(descriptions: readonly SchemeDescription[]): string {
  const rows = descriptions.flatMap((scheme) => [row(scheme), ...keyFormRow(scheme)]);
  const grades = Object.entries(CAPTURED).map(([grade, captured]) => `${grade}  ${captured}\n`);
  return [table(HEAD, rows), '\n', ...grades].join('');
}

function row(scheme: SchemeDescription): string[] {
  const { timestamp, coverage } = scheme;
  return [
    `${titleOf(scheme)}${scheme.unconfirmed === null ? '' : ' (unconfirmed)'}`,
    headersOf(scheme.headers) || (scheme.kind === 'builtIn' ? 'in the body' : '-'),
    [scheme.algorithm, scheme.encoding].filter((part) => part !== null).join(' ') || '-',
    timestamp === null ? '-' : `${timestamp.in} ${timestamp.name} (${timestamp.unit})`,
    scheme.deliveryIdHeader ?? '-',
    scheme.handshakes.map(handshake).join(', ') || '-',
    coverage === null ? '?' : covered(coverage),
    scheme.grade ?? '?',
  ];
}

/** A publisher with many headers, one for each key, would make every line too long. */
function headersOf(headers: readonly string[]): string {
  const more = headers.length > 3 ? `, … (${headers.length})` : '';
  return `${headers.slice(0, more === '' ? 3 : 1).join(', ')}${more}`;
}

/** The other form of a scheme, shown below it. */
function keyFormRow({ name, keyForm }: SchemeDescription): string[][] {
  if (keyForm === null) return [];
  const { prefix, headers, algorithm, coverage, grade } = keyForm;
  return [[`${name}, key ${prefix}…`, headersOf(headers), algorithm, '', '', '', covered(coverage), grade ?? '?']];
}

/** The publisher's own name for it can equal the name of the method. */
function handshake({ name, method, bringsKey }: SchemeDescription['handshakes'][number]): string {
  return `${name === method ? method : `${method} ${name}`}${bringsKey ? ' (brings the key)' : ''}`;
}

function covered(coverage: NonNullable<SchemeDescription['coverage']>): string {
  const parts = Object.entries(coverage).filter(([, isCovered]) => isCovered);
  return parts.map(([part]) => part).join(' + ') || 'nothing';
}

/** Many names on one line would make every line as long. */
function titleOf({ name, aliases }: SchemeDescription): string {
  const more = aliases.length > 2 ? `, … (${aliases.length} more names)` : '';
  return `${[name, ...(more === '' ? aliases : [])].join(', ')}${more}`;
}

export const schemesCommand: CommandPart = { name: 'schemes', commands: [makeSchemes] };
