// Writes the comparison with other products from docs/compared.json: `npm run docs`. A test compares pages and data.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { z } from 'zod';

const ROOT = resolve(import.meta.dirname, '..');

/** A peer's documentation on a claim, with its page and the date it was read. */
const cellSchema = z.strictObject({
  is: z.enum(['yes', 'part', 'no']),
  url: z.url({ protocol: /^https$/, hostname: z.regexes.domain }),
  read: z.iso.date(),
  note: z.string().min(1).optional(),
});

const rowSchema = z.strictObject({
  /** A feature of Sluice. */
  claim: z.string().min(1),
  peers: z.record(z.string(), cellSchema),
});

const comparisonSchema = z
  .strictObject({ peers: z.array(z.string().min(1)).min(1), rows: z.array(rowSchema).min(1) })
  .superRefine(({ peers, rows }, context) => {
    for (const { claim, peers: cells } of rows) {
      for (const peer of peers) if (cells[peer] === undefined) context.addIssue(`"${claim}" has no cell for ${peer}`);
      for (const name of Object.keys(cells))
        if (!peers.includes(name)) context.addIssue(`"${claim}" has a cell for ${name}, which is no peer`);
      for (const [name, { is, note }] of Object.entries(cells))
        if (is === 'part' && note === undefined) context.addIssue(`"${claim}" does not say which part ${name} has`);
    }
  });

export type Comparison = z.output<typeof comparisonSchema>;
type Row = Comparison['rows'][number];

/** Throws for an empty cell, and for one without its page or date. */
export const parseComparison = (json: unknown): Comparison => comparisonSchema.parse(json);

export const readComparison = (): Comparison =>
  parseComparison(JSON.parse(readFileSync(resolve(ROOT, 'docs/compared.json'), 'utf8')));

const isOfNone = ({ peers }: Row) => Object.values(peers).every(({ is }) => is === 'no');

function listed(names: readonly string[], and = ' and '): string {
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')}${and}${names.at(-1)}`;
}

function dated(day: string): string {
  const [year, month, date] = day.split('-').map(Number);
  const name = new Intl.DateTimeFormat('en', { month: 'long', timeZone: 'UTC' }).format(new Date(day));
  return `${date} ${month === undefined ? '' : name} ${year}`;
}

/** When the newest and the oldest of the pages were read. */
function readOn({ rows }: Comparison): string {
  const days = [...new Set(rows.flatMap(({ peers }) => Object.values(peers).map(({ read }) => read)))].sort();
  const [first = '', last = first] = [days.at(0), days.at(-1)];
  if (first === last) return `On ${dated(first)}`;
  const isOneMonth = first.slice(0, 7) === last.slice(0, 7);
  return `From ${isOneMonth ? Number(first.slice(8)) : dated(first)} to ${dated(last)}`;
}

/** The peers that have it, then those that have a part of it; "none" only if every cell is `no`. */
function others(row: Row, peers: readonly string[]): string {
  if (isOfNone(row)) return 'none of them';
  const having = (wanted: 'yes' | 'part') =>
    peers.flatMap((peer) => {
      const cell = row.peers[peer];
      if (cell?.is !== wanted) return [];
      return `[${peer}](${cell.url})${cell.note === undefined ? '' : ` (${cell.note})`}`;
    });
  const [all, parts] = [having('yes'), having('part')];
  return [
    ...(all.length > 0 ? [all.join(', ')] : []),
    ...(parts.length > 0 ? [`in part: ${parts.join(', ')}`] : []),
  ].join('; ');
}

/** Text in lines of at most 140 characters, as in the pages. */
function wrapped(text: string): string {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? '';
    if (line !== '' && line.length + 1 + word.length > 140) lines.push(word);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines.join('\n');
}

/** The whole of docs/compared.md. */
export function comparisonPage(comparison: Comparison): string {
  const { peers, rows } = comparison;
  const lines = rows.map((row) => `| ${row.claim} | ${others(row, peers).replaceAll('|', '\\|')} |`);
  const introduction =
    `What Sluice does, and which other products document the same. ${readOn(comparison)} we read what ${listed(peers)} publish: ` +
    'documentation, and source where it is open. [compared.json](compared.json) names for each product and each row the page that we ' +
    'read and the day, also where we found nothing on it. A product that is not named in a row may have it on a page that we did not read.';
  return `# Compared

<!-- Written by \`npm run docs\` from compared.json. Change that, not this page. -->

${wrapped(introduction)}

| Sluice | others |
|---|---|
${lines.join('\n')}
`;
}
