// Makes the pages of publishers from their rows, and the list of all. A page that is written by hand gets what its row says.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { gradeOf } from '../src/webhooks/schemes/layout.ts';
import { BUILT_IN_SCHEMES, PUBLISHERS } from '../src/webhooks/schemes/publishers/index.ts';
import { exampleUrl, publisherInputs, slugOf } from '../src/webhooks/schemes/publishers/inputs.ts';
import type { PublisherRow } from '../src/webhooks/schemes/publishers/row.ts';
import { signsWithSameKey } from '../src/webhooks/schemes/sign.ts';
import { CAPTURED, type PublisherSpec } from '../src/webhooks/schemes/spec.ts';

const FOLDER = resolve(import.meta.dirname, '../docs/publishers');
const GENERATED = '<!-- Written by `npm run docs` from the publisher’s row. Change that, not this page. -->';
const WITH_ROW =
  '<!-- `npm run docs` writes steps, the trigger’s fields and the first lines on retries from the publisher’s row. -->';
const COLUMNS = 140;

/** Text of each page that is made, by its path in the repository; the list of publishers among them. */
export function publisherPages(): Readonly<Record<string, string>> {
  const byHand = readWritten();
  const written = new Map(byHand.map((page) => [page.scheme, page]));
  const made = PUBLISHERS.flatMap((row) => {
    const spec = BUILT_IN_SCHEMES.find(({ name }) => name === row.name);
    if (spec === undefined) return [];
    const { file, text } = written.get(row.name) ?? { file: `${slugOf({ title: spec.title, row })}.md` };
    return [{ row, spec, file, page: text === undefined ? pageOf(row, spec) : withRow(text, row, spec) }];
  });
  const index = readFileSync(resolve(FOLDER, 'README.md'), 'utf8');
  return {
    ...Object.fromEntries(made.map(({ file, page }) => [`docs/publishers/${file}`, page])),
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
  const slug = slugOf({ title: spec.title, row });
  const grade = gradeOf(spec) ?? 'F';
  const sections = [
    `# ${spec.title}`,
    GENERATED,
    `Scheme \`${spec.name}\`. [Publishers](README.md#set-up-any-publisher) explains the common steps.`,
    `## At the publisher\n\n${stepsOf(row, slug)}`,
    `## The trigger\n\n\`manifests/${slug}.json\`:\n\n${jsonOf(manifestOf(row, spec))}`,
    listed(remarksOf(row, spec)),
    `## Retries and duplicates\n\n${paragraph(retriesOf(row, spec))}`,
    `## What the signature covers\n\n${paragraph([`**Grade ${grade}.** ${CAPTURED[grade]}`])}`,
    paragraph([...(row.note === undefined ? [] : [row.note]), factsOf(row)]),
    ...(signsWithSameKey(spec) ? [`## Try it\n\n\`\`\`sh\nnpx sluice send ${slug}\n\`\`\``] : []),
  ];
  return `${sections.filter((section) => section !== '').join('\n\n')}\n`;
}

function stepsOf({ clickPath }: PublisherRow, slug: string): string {
  const steps = clickPath.map((step, at) => `${at + 1}. ${step.replaceAll('{URL}', exampleUrl(slug))}`);
  return steps.map((step) => wrapped(step, '   ')).join('\n');
}

const jsonOf = (manifest: object) => `\`\`\`json\n${JSON.stringify(manifest, null, 2)}\n\`\`\``;

/** A page that is written by hand, with what its row says of it: the steps at the publisher, the trigger's fields and the retries. */
function withRow(text: string, row: PublisherRow, spec: PublisherSpec): string {
  const slug = slugOf({ title: spec.title, row });
  const [, json = ''] = /```json\n([\s\S]*?)```/.exec(text) ?? [];
  const manifest = JSON.parse(json) as { readonly triggers: object };
  const triggers = { [slug]: { type: 'webhook', inputs: publisherInputs(row, spec) } };
  return text
    .replace(/^(# .+\n\n)(?!<!--)/, (title) => `${title}${WITH_ROW}\n\n`)
    .replace(/(^## At the publisher\n\n)[\s\S]*?(?=\n\n## )/m, (_, head: string) => `${head}${stepsOf(row, slug)}`)
    .replace(/```json\n[\s\S]*?```/, () => jsonOf({ ...manifest, triggers }))
    .replace(/(^## Retries and duplicates\n\n)[\s\S]*?(?=\n\n)/m, (section, head: string) =>
      row.retries === undefined ? section : `${head}${paragraph(retryFacts(row, spec))}`,
    );
}

function manifestOf(row: PublisherRow, spec: PublisherSpec) {
  const slug = slugOf({ title: spec.title, row });
  return {
    $schema: './manifest.schema.json',
    id: guidOf(spec.name),
    name: spec.title,
    version: '1',
    triggers: { [slug]: { type: 'webhook', inputs: publisherInputs(row, spec) } },
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

function retriesOf(row: PublisherRow, spec: PublisherSpec): string[] {
  const { retries } = row;
  const { headers, eventIdSource, timestamp, eventId } = spec;
  const id = headers[0]?.deliveryId;
  const said = retryFacts(row, spec);
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

/** What is known of the retries themselves. */
function retryFacts({ retries, source }: PublisherRow, { title, timestamp }: PublisherSpec): string[] {
  if (retries === undefined) return [`We found no page that says whether ${title} retries (as of November 2026).`];
  const { when, howOften, newlySigned, source: where = `<${urlIn(source)}>` } = retries;
  const read = where === null ? 'as of November 2026' : `${where}, as of November 2026`;
  const said = [`${title} retries ${when}: ${howOften} (${read}).`];
  if (newlySigned === true) said.push('Each retry has a new time and a new signature.');
  if (newlySigned === false) {
    const same = timestamp === undefined ? 'the signature' : 'the time and the signature';
    said.push(`A retry has ${same} of the first attempt.`);
  }
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
