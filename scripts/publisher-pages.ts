// Makes the publishers' pages from their rows, and the list of all. In hand-written pages, fills in the row's parts.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { gradeOf } from '../src/webhooks/schemes/layout.ts';
import { STANDARD_ROWS } from '../src/webhooks/schemes/publishers/by-standard.ts';
import { BUILT_IN_SCHEMES, PUBLISHERS } from '../src/webhooks/schemes/publishers/index.ts';
import {
  exampleUrl,
  firstFlow,
  retriesOf,
  slugOf,
  specSubject,
  standardSubject,
  type TriggerSubject,
} from '../src/webhooks/schemes/publishers/inputs.ts';
import { type PageFacts, type StandardRow, standardPublisher } from '../src/webhooks/schemes/publishers/row.ts';
import { signsWithSameKey } from '../src/webhooks/schemes/sign.ts';
import { CAPTURED, type Grade, type PublisherSpec } from '../src/webhooks/schemes/spec.ts';
import { describedStandard, knownPublisher } from '../src/webhooks/schemes/standards/standard.ts';

const FOLDER = resolve(import.meta.dirname, '../docs/publishers');
const GENERATED = '<!-- Written by `npm run docs` from the publisher’s row. Change that, not this page. -->';
const WITH_ROW =
  '<!-- `npm run docs` writes steps, the trigger’s fields and the first lines on retries from the publisher’s row. -->';
const COLUMNS = 140;

/** Text of each generated page, by its path in the repository; includes the list of publishers. */
export function publisherPages(): Readonly<Record<string, string>> {
  const byHand = readWritten();
  const written = new Map(byHand.map((page) => [page.scheme, page]));
  const subjects = [
    ...PUBLISHERS.flatMap((row) => {
      const spec = BUILT_IN_SCHEMES.find(({ name }) => name === row.name);
      return spec === undefined ? [] : [{ row, scheme: subjectOf(spec) }];
    }),
    ...STANDARD_ROWS.map((row) => ({ row, scheme: subjectByStandard(row) })),
  ];
  const made = subjects.map(({ row, scheme }) => {
    const { file, text } = written.get(row.name) ?? { file: `${slugOf(scheme.title, row)}.md` };
    return { row, scheme, file, page: text === undefined ? pageOf(row, scheme) : withRow(text, row, scheme) };
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

/** A scheme's data for its page, from any kind of source. */
interface Subject extends TriggerSubject, Pick<PublisherSpec, 'aliases' | 'eventIdSource' | 'eventId' | 'keyForm'> {
  readonly grade: Grade;
  /** Whether the trigger's key also signs. */
  readonly isSignedHere: boolean;
}

function subjectOf(spec: PublisherSpec): Subject {
  const { aliases, eventIdSource, eventId, keyForm } = spec;
  const grade = gradeOf(spec) ?? 'F';
  return {
    ...specSubject(spec),
    aliases,
    eventIdSource,
    eventId,
    keyForm,
    grade,
    isSignedHere: signsWithSameKey(spec),
  };
}

function subjectByStandard(row: StandardRow): Subject {
  const publisher = standardPublisher(row);
  const { aliases, eventId } = publisher;
  const subject = standardSubject(row);
  const { grade } = describedStandard(knownPublisher(publisher), {});
  const none = { eventIdSource: undefined, keyForm: undefined };
  return { ...subject, ...none, aliases, eventId, grade, isSignedHere: subject.hasKey };
}

interface WrittenPage {
  readonly file: string;
  readonly scheme: string;
  readonly text: string;
}

/** The hand-written pages. */
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

function lineOf({ scheme, file }: { readonly scheme: Subject; readonly file: string }): Line {
  const { name, title, grade, handshakes = [] } = scheme;
  const greetings = [...handshakes.map(greetingOf), ...otherGrade(scheme)].join(', ');
  return { title, cells: [`[${title}](${file})`, `\`${name}\``, grade, greetings, namesOf(scheme)] };
}

/** Lines of pages about a standard itself, whose scheme has no row. */
function otherLines(pages: readonly WrittenPage[]): Line[] {
  return pages.flatMap(({ file, scheme, text }) => {
    const [, title = ''] = /^# (.+)$/m.exec(text) ?? [];
    const [, grade = ''] = /\*\*Grade ([A-F])\.\*\*/.exec(text) ?? [];
    const hasRow = [...PUBLISHERS, ...STANDARD_ROWS].some(({ name }) => name === scheme);
    return hasRow ? [] : [{ title, cells: [`[${title}](${file})`, `\`${scheme}\``, grade, '', ''] }];
  });
}

function listOf(lines: readonly Line[]): string {
  return lines
    .toSorted((one, other) => one.title.localeCompare(other.title, 'en'))
    .map(({ cells }) => `| ${cells.join(' | ')} |\n`.replaceAll('|  |', '| |').replaceAll('|  |', '| |'))
    .join('');
}

function namesOf({ aliases = [] }: Subject): string {
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

function otherGrade({ keyForm }: Subject): string[] {
  return keyForm === undefined
    ? []
    : [`grade ${gradeOf(keyForm.spec)} with a key that begins with \`${keyForm.prefix}\``];
}

function pageOf(row: PageFacts, scheme: Subject): string {
  const { name, title } = scheme;
  const slug = slugOf(title, row);
  const sections = [
    `# ${title}`,
    GENERATED,
    `Scheme \`${name}\`. [Publishers](README.md#set-up-any-publisher) explains the common steps.`,
    `## At the publisher\n\n${stepsOf(row, slug)}`,
    `## The trigger\n\n\`manifests/${slug}.json\`:\n\n${jsonOf(manifestOf(row, scheme, guidOf(name)))}`,
    listed(remarksOf(row, scheme)),
    `## Retries and duplicates\n\n${paragraph(onRetries(row, scheme))}`,
    `## What the signature covers\n\n${paragraph(gradeOfPage(row, scheme))}`,
    paragraph([...(row.note === undefined ? [] : [row.note]), factsOf(row)]),
    ...(scheme.isSignedHere ? [`## Try it\n\n\`\`\`sh\nnpx sluice send ${slug}\n\`\`\``] : []),
  ];
  return `${sections.filter((section) => section !== '').join('\n\n')}\n`;
}

/** With a warning if the trigger does not recognise a retry that has a new signature. */
function gradeOfPage(row: PageFacts, { grade, id, eventIdSource }: Subject): string[] {
  const isTold = id !== undefined || eventIdSource !== undefined || retriesOf(row).retries?.newlySigned === false;
  return [`**Grade ${grade}.** ${CAPTURED[grade]}`, ...(grade === 'B' && !isTold ? [NEW_DELIVERY] : [])];
}

const NEW_DELIVERY = 'A retry with a new signature counts as a new delivery, unless `webhookEventId` names the event.';

/** The grade's paragraph in a hand-written page, with the page's further sentences. */
function gradeInText(text: string, row: PageFacts, scheme: Subject): string {
  const captured = CAPTURED[scheme.grade];
  return text.replace(/^\*\*Grade [A-F]\.\*\*[\s\S]*?(?=\n\n)/m, (found) => {
    const words = found
      .replace(/\s+/g, ' ')
      .replace(/ A retry with a new signature counts as a new delivery[^.]*\./, '');
    return paragraph(
      [
        ...gradeOfPage(row, scheme),
        ...words
          .split(captured)
          .slice(1)
          .map((more) => more.trim()),
      ].filter((it) => it !== ''),
    );
  });
}

function stepsOf({ clickPath }: PageFacts, slug: string): string {
  const steps = clickPath.map((step, at) => `${at + 1}. ${step.replaceAll('{URL}', exampleUrl(slug))}`);
  return steps.map((step) => wrapped(step, '   ')).join('\n');
}

const jsonOf = (manifest: object) => `\`\`\`json\n${JSON.stringify(manifest, null, 2)}\n\`\`\``;

/** A hand-written page with the parts from its row: the steps at the publisher, the manifest and the retries. */
function withRow(text: string, row: PageFacts, scheme: Subject): string {
  const slug = slugOf(scheme.title, row);
  const [, id = guidOf(row.name)] = /"id": "([-0-9a-f]{36})"/.exec(text) ?? [];
  return gradeInText(text, row, scheme)
    .replace(/^(# .+\n\n)(?!<!--)/, (title) => `${title}${WITH_ROW}\n\n`)
    .replace(/(^## At the publisher\n\n)[\s\S]*?(?=\n\n## )/m, (_, head: string) => `${head}${stepsOf(row, slug)}`)
    .replace(/```json\n[\s\S]*?```/, () => jsonOf(manifestOf(row, scheme, id)))
    .replace(
      /(^## Retries and duplicates\n\n)[\s\S]*?(?=\n\n)/m,
      (_, head: string) => `${head}${paragraph(retryFacts(row, scheme))}`,
    );
}

function manifestOf(row: PageFacts, scheme: Subject, id: string) {
  const flow = firstFlow(row, scheme, exampleUrl(slugOf(scheme.title, row)));
  return { $schema: './manifest.schema.json', id, ...flow };
}

/** The same id for the same name, so that generating a page again does not change it. */
function guidOf(name: string): string {
  const hex = createHash('sha256').update(`publisher ${name}`).digest('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), `4${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`, hex.slice(20, 32)].join(
    '-',
  );
}

function remarksOf({ keyIs }: PageFacts, { title, handshakes = [], isBySha1 }: Subject): string[] {
  const greetings = handshakes.map(({ name, method, needsVerification }) => {
    const how = `${needsVerification ? 'signed' : 'unsigned'}${method === 'POST' ? '' : `, with ${method}`}`;
    return `${title} tests the URL with \`${name}\` (${how}); Sluice answers it, and no run starts. Start Sluice with the trigger first.`;
  });
  const sha1 = `${title} signs with SHA-1 alone, which \`webhookAllowSha1\` allows for this trigger.`;
  return [...(keyIs === undefined ? [] : [`The key is ${keyIs}.`]), ...greetings, ...(isBySha1 ? [sha1] : [])];
}

function onRetries(row: PageFacts, scheme: Subject): string[] {
  const { retries } = retriesOf(row);
  const { id, eventIdSource, hasTimestamp, eventId } = scheme;
  const said = retryFacts(row, scheme);
  if (retries !== null && hasTimestamp && retries.newlySigned !== true) {
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

/** Facts about the retries themselves. */
function retryFacts(row: PageFacts, { title, hasTimestamp }: Subject): string[] {
  const { retries, noRetries, where } = retriesOf(row);
  if (retries === null) return [`Retries: ${noRetries} (${where}).`];
  const { when, howOften, newlySigned } = retries;
  const said = [`${title} retries ${when}: ${howOften} (${where}).`];
  if (newlySigned === true) said.push('Each retry has a new time and a new signature.');
  if (newlySigned === false) {
    const same = hasTimestamp ? 'the time and the signature' : 'the signature';
    said.push(`A retry has ${same} of the first attempt.`);
  }
  return said;
}

function factsOf({ certainty, source, unconfirmed, noVector }: PageFacts): string {
  const how = {
    package: 'A package of the publisher confirms these facts',
    vector: 'A signature that the publisher published confirms these facts',
    documented: 'These facts are documented by the publisher',
    unconfirmed: `Not confirmed by the publisher: ${unconfirmed ?? 'all of it'}. Begin with \`Audit\``,
  };
  const none = noVector === undefined ? '' : ` It publishes no signed request to check them by (read ${noVector}).`;
  return `${how[certainty]}.${none} Source: ${source.replace(/https:\/\/[^\s,]+/g, '<$&>')}.`;
}

function listed(lines: readonly string[]): string {
  return lines.map((line) => wrapped(`- ${line}`, '  ')).join('\n');
}

function paragraph(sentences: readonly string[]): string {
  return wrapped(sentences.join(' '), '');
}

/** Breaks lines at spaces to stay within the column limit. */
function wrapped(text: string, indent: string): string {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? '';
    if (line !== '' && line.length + 1 + word.length > COLUMNS) lines.push(`${indent}${word}`);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines.join('\n');
}
