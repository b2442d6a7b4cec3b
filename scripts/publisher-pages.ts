// Makes the pages of publishers from their rows, and the list of all. A page that is written by hand stays as it is.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { gradeOf, hasPart } from '../src/webhooks/schemes/layout.ts';
import { BUILT_IN_SCHEMES, PUBLISHERS } from '../src/webhooks/schemes/publishers/index.ts';
import type { PublisherRow } from '../src/webhooks/schemes/publishers/row.ts';
import { signsWithSameKey } from '../src/webhooks/schemes/sign.ts';
import { CAPTURED, type PublisherSpec } from '../src/webhooks/schemes/spec.ts';

const FOLDER = resolve(import.meta.dirname, '../docs/publishers');
const GENERATED = '<!-- Written by `npm run docs` from the publisher’s row. Change that, not this page. -->';
const COLUMNS = 140;

/** Text of each page that is made, by its path in the repository; the list of publishers among them. */
export function publisherPages(): Readonly<Record<string, string>> {
  const byHand = readWritten();
  const written = new Map(byHand.map(({ scheme, file }) => [scheme, file]));
  const made = PUBLISHERS.flatMap((row) => {
    const spec = BUILT_IN_SCHEMES.find(({ name }) => name === row.name);
    if (spec === undefined) return [];
    const file = written.get(row.name) ?? `${slugOf(spec.title)}.md`;
    if (!written.has(row.name) && row.clickPath === undefined)
      throw new Error(`${row.name} has neither page nor clickPath`);
    return [{ row, spec, file, isWritten: written.has(row.name) }];
  });
  const pages = made.filter(({ isWritten }) => !isWritten);
  const index = readFileSync(resolve(FOLDER, 'README.md'), 'utf8');
  return {
    ...Object.fromEntries(pages.map(({ row, spec, file }) => [`docs/publishers/${file}`, pageOf(row, spec)])),
    'docs/publishers/README.md': index.replace(
      /(\| publisher \| scheme \|.*\n\|(?:---\|)+\n)(?:\|.*\n)+/,
      (_, head: string) => `${head}${listOf([...made.map(lineOf), ...otherLines(byHand)])}`,
    ),
  };
}

interface WrittenPage {
  readonly file: string;
  readonly scheme: string;
  readonly text: string;
}

/** The pages that no row makes. */
function readWritten(): WrittenPage[] {
  return readdirSync(FOLDER).flatMap((file) => {
    const text = readFileSync(resolve(FOLDER, file), 'utf8');
    const [, scheme] = /^Scheme `(\w+)`/m.exec(text) ?? [];
    return scheme === undefined || text.includes(GENERATED) ? [] : [{ file, scheme, text }];
  });
}

interface Line {
  readonly title: string;
  readonly cells: readonly string[];
}

function lineOf({ spec, file }: { readonly spec: PublisherSpec; readonly file: string }): Line {
  const greetings = [...(spec.handshakes ?? []).map(greetingOf), ...otherGrade(spec)].join(', ');
  const cells = [`[${spec.title}](${file})`, `\`${spec.name}\``, gradeOf(spec) ?? '', greetings, namesOf(spec)];
  return { title: spec.title, cells };
}

/** Of publishers that sign by a standard: their scheme has no row. */
function otherLines(pages: readonly WrittenPage[]): Line[] {
  return pages.flatMap(({ file, scheme, text }) => {
    const [, title = ''] = /^# (.+)$/m.exec(text) ?? [];
    const [, grade = ''] = /\*\*Grade ([A-F])\.\*\*/.exec(text) ?? [];
    const hasRow = BUILT_IN_SCHEMES.some(({ name }) => name === scheme);
    return hasRow ? [] : [{ title, cells: [`[${title}](${file})`, `\`${scheme}\``, grade, '', ''] }];
  });
}

function listOf(lines: readonly Line[]): string {
  return lines
    .toSorted((one, other) => one.title.localeCompare(other.title, 'en'))
    .map(({ cells }) => `| ${cells.join(' | ')} |\n`.replaceAll('|  |', '| |').replaceAll('|  |', '| |'))
    .join('');
}

function namesOf({ aliases = [] }: PublisherSpec): string {
  return aliases.map((alias) => `\`${alias}\``).join(', ');
}

function greetingOf({
  name,
  method,
  needsVerification,
  offeredKey,
}: NonNullable<PublisherSpec['handshakes']>[number]): string {
  const call = name === method ? name : `${method === 'POST' ? '' : `${method} with `}\`${name}\``;
  return `${needsVerification ? 'signed ' : ''}${call}${offeredKey === undefined ? '' : ', which brings the key'}`;
}

function otherGrade({ keyForm }: PublisherSpec): string[] {
  return keyForm === undefined
    ? []
    : [`grade ${gradeOf(keyForm.spec)} with a key that begins with \`${keyForm.prefix}\``];
}

function pageOf(row: PublisherRow, spec: PublisherSpec): string {
  const slug = slugOf(spec.title);
  const url = `https://hooks.example.com/flows/api/webhook/${slug}`;
  const steps = (row.clickPath ?? []).map((step, at) => wrapped(`${at + 1}. ${step.replaceAll('{URL}', url)}`, '   '));
  const grade = gradeOf(spec) ?? 'F';
  const sections = [
    `# ${spec.title}`,
    GENERATED,
    `Scheme \`${spec.name}\`. [Publishers](README.md#set-up-any-publisher) explains the common steps.`,
    `## At the publisher\n\n${steps.join('\n')}`,
    `## The trigger\n\n\`manifests/${slug}.json\`:\n\n\`\`\`json\n${JSON.stringify(manifestOf(row, spec), null, 2)}\n\`\`\``,
    listed(remarksOf(row, spec)),
    `## Retries and duplicates\n\n${paragraph(retriesOf(row, spec))}`,
    `## What the signature covers\n\n${paragraph([`**Grade ${grade}.** ${CAPTURED[grade]}`])}`,
    paragraph([...(row.note === undefined ? [] : [row.note]), factsOf(row)]),
    ...(signsWithSameKey(spec) ? [`## Try it\n\n\`\`\`sh\nnpx sluice send ${slug}\n\`\`\``] : []),
  ];
  return `${sections.filter((section) => section !== '').join('\n\n')}\n`;
}

function manifestOf({ presets = [], ...row }: PublisherRow, spec: PublisherSpec) {
  const slug = slugOf(spec.title);
  const variable = spec.name.replace(/([a-z0-9])([A-Z])/g, '$1_$2').toUpperCase();
  const { signs, algorithm, headers, handshakes = [] } = spec;
  const id = headers[0]?.deliveryId;
  const inputs = {
    webhookSlug: slug,
    webhookSignatureScheme: spec.name,
    ...(handshakes.some(({ offeredKey }) => offeredKey !== undefined)
      ? { webhookLearnKey: true }
      : { webhookHmacKey: `env:${variable}_KEY` }),
    ...(handshakes.some(({ needsVerifyToken }) => needsVerifyToken === true) && {
      webhookVerifyToken: `env:${variable}_TOKEN`,
    }),
    ...(algorithm === 'sha1' && { webhookAllowSha1: true }),
    ...(hasPart(signs, 'url') && { webhookPublicUrl: `https://hooks.example.com/flows/api/webhook/${slug}` }),
    ...(id !== undefined && { webhookNonceHeader: id }),
    ...((spec.timestamp !== undefined || id === undefined) && {
      webhookReplayToleranceSeconds: row.toleranceSeconds ?? 300,
    }),
    webhookDuplicateResponse: 'acknowledge',
    ...(presets[0] !== undefined && { webhookIpAllowListPreset: presets[0] }),
    webhookEnforcementMode: 'Enforce',
  };
  return {
    $schema: './manifest.schema.json',
    id: guidOf(spec.name),
    name: spec.title,
    version: '1',
    triggers: { [slug]: { type: 'webhook', inputs } },
    steps: { log: { type: 'LogMessage', inputs: { message: `a delivery of ${spec.title} arrived` } } },
  };
}

/** The same for the same name: a page that is made again has no other id. */
function guidOf(name: string): string {
  const hex = createHash('sha256').update(`publisher ${name}`).digest('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), `4${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`, hex.slice(20, 32)].join(
    '-',
  );
}

function remarksOf({ keyIs }: PublisherRow, { title, handshakes = [], algorithm }: PublisherSpec): string[] {
  const greetings = handshakes.map(({ name, method, needsVerification }) => {
    const how = `${needsVerification ? 'signed' : 'unsigned'}${method === 'POST' ? '' : `, with ${method}`}`;
    return `${title} tests the URL with \`${name}\` (${how}); Sluice answers it, and no run starts. Start Sluice with the trigger first.`;
  });
  const sha1 = `${title} signs with SHA-1 alone, which \`webhookAllowSha1\` allows for this trigger.`;
  return [
    ...(keyIs === undefined ? [] : [`The key is ${keyIs}.`]),
    ...greetings,
    ...(algorithm === 'sha1' ? [sha1] : []),
  ];
}

function retriesOf(
  { retries, source }: PublisherRow,
  { title, headers, eventIdSource, timestamp, eventId }: PublisherSpec,
): string[] {
  const id = headers[0]?.deliveryId;
  const said: string[] = [];
  if (retries === undefined) said.push(`We found no page that says whether ${title} retries (as of November 2026).`);
  else said.push(`${title} retries ${retries.when}: ${retries.howOften} (<${urlIn(source)}>, as of November 2026).`);
  if (retries?.newlySigned === true) said.push('Each retry has a new time and a new signature.');
  if (retries?.newlySigned === false) said.push('A retry has the time and the signature of the first attempt.');
  if (retries !== undefined && timestamp !== undefined && retries.newlySigned !== true) {
    said.push('If retries are refused with `timestamp_skew`, raise the tolerance to the time that they take.');
  }
  if (eventIdSource !== undefined)
    said.push('A second delivery of an event starts no run: its id is signed, and the same in each.');
  else if (id !== undefined)
    said.push(`\`${id}\` tells a retry of an accepted delivery; \`acknowledge\` answers 200 to it.`);
  else said.push('A second delivery with the same signed content counts as a replay; `acknowledge` answers 200 to it.');
  if ('none' in eventId) said.push(`It has no id of the event: ${eventId.none}.`);
  return said;
}

function urlIn(source: string): string {
  return /https:\/\/[^\s,]+/.exec(source)?.[0] ?? 'https://www.npmjs.com';
}

function factsOf({ certainty, source, unconfirmed }: PublisherRow): string {
  const how = {
    package: 'A package of the publisher confirms these facts',
    vector: 'A signature that the publisher published confirms these facts',
    documented: 'These facts are documented by the publisher',
    unconfirmed: `Not confirmed by the publisher: ${unconfirmed ?? 'all of it'}. Begin with \`Audit\``,
  };
  return `${how[certainty]}. Source: ${source.replace(/https:\/\/[^\s,]+/g, '<$&>')}.`;
}

function slugOf(title: string): string {
  return title
    .replace(/\(.*\)/g, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '');
}

function listed(lines: readonly string[]): string {
  return lines.map((line) => wrapped(`- ${line}`, '  ')).join('\n');
}

function paragraph(sentences: readonly string[]): string {
  return wrapped(sentences.join(' '), '');
}

/** At spaces, so that lines have no more than so many columns. */
function wrapped(text: string, indent: string): string {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? '';
    if (line !== '' && line.length + 1 + word.length > COLUMNS) lines.push(`${indent}${word}`);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines.join('\n');
}
