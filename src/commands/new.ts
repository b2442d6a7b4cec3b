import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { Command } from 'commander';
import type { Settings } from '../config/settings-schema.ts';
import { didYouMean, formatIssue } from '../manifest/issues.ts';
import { type LoadedFlow, parseManifest } from '../manifest/load.ts';
import { isReference } from '../manifest/read-secret.ts';
import type { WebhookInputs } from '../manifest/webhook-inputs.ts';
import { ENFORCEMENT_MODES, type EnforcementMode } from '../model/manifest.ts';
import { print } from '../telemetry/terminal.ts';
import { BUILT_IN_SCHEMES } from '../webhooks/schemes/publishers/index.ts';
import { type CommandContext, CommandError, openContext, reporting } from './context.ts';
import { schemaText } from './schema.ts';

interface NewOptions {
  readonly publisher?: string;
  readonly slug?: string;
  readonly key?: string;
  readonly mode?: string;
  readonly name?: string;
  readonly manifests?: string;
}

export function newCommand(): Command {
  return new Command('new')
    .description(
      'Write a manifest for a publisher’s webhook, and print what to enter at the publisher; asks on a terminal',
    )
    .option('--publisher <name>', 'the publisher: GitHub, Stripe, Slack, … or Generic for your own sender')
    .option('--slug <slug>', 'last part of the URL; default: named after the publisher')
    .option(
      '--key <reference>',
      'where the key is: env:NAME or file:PATH; default: a variable named after the publisher',
    )
    .option('--mode <mode>', `${ENFORCEMENT_MODES.join(', ')}; default: Enforce`)
    .option('--name <name>', 'name of the flow; default: named after the publisher')
    .option('--manifests <folder>', 'the folder to write to; default: the manifests folder of the settings')
    .addHelpText('after', '\nNever overwrites a file. Exits with 2 if nothing was written.')
    .action(reporting(writeNew));
}

async function writeNew(options: NewOptions): Promise<void> {
  const context = await openContext(options.manifests);
  const publishers = readPublishers();
  const answers = await withQuestions((ask) => gatherAnswers(options, { publishers, flows: context.flows, ask }));
  const folder = options.manifests ?? context.settings.manifests;
  const file = join(folder, `${answers.slug}.json`);
  const manifest = manifestFor(answers, context.settings);
  refuseMistakes(manifest, file, context);
  await mkdir(folder, { recursive: true });
  await writeOnce(file, manifest);
  // The manifest names it, for editors.
  await writeFile(join(folder, 'manifest.schema.json'), schemaText(context.extensions), { flag: 'wx' }).catch(() => {});
  print(`${instructions({ file, manifest, answers, settings: context.settings }).join('\n')}\n`);
}

/** One page of docs/publishers: who sends, what to enter there, and a manifest that works. */
interface Publisher {
  readonly page: string;
  /** Name, scheme and everything else that it may be called. */
  readonly names: readonly string[];
  readonly title: string;
  /** Section "At the publisher", Markdown. */
  readonly steps: string;
  readonly manifest: PublisherManifest;
  readonly inputs: WebhookInputs;
}

interface PublisherManifest {
  readonly name: string;
  readonly triggers: Readonly<Record<string, { readonly type: string; readonly inputs: WebhookInputs }>>;
  readonly [field: string]: unknown;
}

const require = createRequire(import.meta.url);

/** The build puts the pages beside the code, so that an installed package has them too. */
export function readPublishers(): Publisher[] {
  const folder = join(dirname(require.resolve('#package.json')), 'dist/publishers');
  return readdirSync(folder).flatMap((page) => {
    const text = readFileSync(join(folder, page), 'utf8');
    const [, title = ''] = /^# (.+)$/m.exec(text) ?? [];
    const [, scheme] = /^Scheme `(\w+)`/m.exec(text) ?? [];
    const [, steps = ''] = /^## At the publisher\n+([\s\S]*?)\n+## /m.exec(text) ?? [];
    const [, json = ''] = /```json\n([\s\S]*?)```/.exec(text) ?? [];
    // The page about schemes of one's own has several manifests, and the index none.
    if (scheme === undefined || steps === '') return [];
    const manifest = JSON.parse(json) as PublisherManifest;
    const aliases = BUILT_IN_SCHEMES.find(({ name }) => name === scheme)?.aliases ?? [];
    const inputs = Object.values(manifest.triggers)[0]?.inputs ?? {};
    return [{ page, names: [scheme, title, basename(page, '.md'), ...aliases], title, steps, manifest, inputs }];
  });
}

interface Answers {
  readonly publisher: Publisher;
  readonly slug: string;
  /** Undefined where the publisher hands the key over. */
  readonly key: string | undefined;
  readonly mode: EnforcementMode;
  readonly name: string;
}

/** Asks the user a question; an empty answer accepts the proposal. Undefined without a terminal. */
type Ask = ((question: string) => Promise<string>) | undefined;

interface Known {
  readonly publishers: readonly Publisher[];
  readonly flows: readonly LoadedFlow[];
  readonly ask: Ask;
}

/** Takes what the options say, then asks for the rest; without a person the rest is what would have been proposed. */
export async function gatherAnswers(options: NewOptions, { publishers, flows, ask }: Known): Promise<Answers> {
  const known = publishers.map(({ names }) => names[0]).join(', ');
  const publisher = await settle(options.publisher, {
    ask,
    intro: `Who sends? ${known}`,
    question: 'Publisher',
    read: (text) => publisherNamed(text, publishers),
  });
  const taken = new Set(flows.flatMap((flow) => flow.webhooks.map(({ inputs }) => inputs.webhookSlug?.toLowerCase())));
  const slug = await settle(options.slug, {
    ask,
    question: 'Last part of the URL',
    proposal: publisher.inputs.webhookSlug ?? '',
    read: (text) => {
      if (/\.schema$/i.test(text)) return new Mistake(`"${text}.json" would count as a schema; choose another slug`);
      return taken.has(text.toLowerCase()) ? new Mistake(`the slug "${text}" is taken; choose another`) : text;
    },
  });
  const { webhookHmacKey } = publisher.inputs;
  const key =
    webhookHmacKey === undefined && options.key === undefined
      ? undefined
      : await settle(options.key, {
          ask,
          question: 'Where is the key (env:NAME or file:PATH)',
          proposal: webhookHmacKey ?? '',
          read: (text) =>
            isReference(text) ? text : new Mistake('expected env:NAME or file:PATH: the key stays out of the manifest'),
        });
  const mode = await settle(options.mode, {
    ask,
    question: `Mode (${ENFORCEMENT_MODES.join(', ')})`,
    proposal: 'Enforce',
    read: (text) =>
      ENFORCEMENT_MODES.find((each) => each.toLowerCase() === text.toLowerCase()) ??
      new Mistake(`the mode "${text}" is not one of ${ENFORCEMENT_MODES.join(', ')}`),
  });
  const { name } = publisher.manifest;
  const isUsual = slug === publisher.inputs.webhookSlug;
  return { publisher, slug, key, mode, name: options.name ?? (isUsual ? name : `${name} ${slug}`) };
}

class Mistake {
  readonly message: string;
  constructor(message: string) {
    this.message = message;
  }
}

interface Question<Answer> {
  readonly ask: Ask;
  /** Said once, before the first question. */
  readonly intro?: string;
  readonly question: string;
  readonly proposal?: string;
  readonly read: (text: string) => Answer | Mistake;
}

/** Asks until the answer is valid. A mistake in an option, or a question without a terminal, ends the command. */
async function settle<Answer>(
  given: string | undefined,
  { ask, intro, question, proposal, read }: Question<Answer>,
): Promise<Answer> {
  if (intro !== undefined && given === undefined && ask !== undefined) print(`${intro}\n`);
  for (;;) {
    const isAsked = given === undefined && ask !== undefined;
    const asked = isAsked ? await ask(`${question}${proposal === undefined ? '' : ` [${proposal}]`}: `) : given;
    const text = asked?.trim() || proposal;
    if (text === undefined && !isAsked) throw new CommandError('--publisher is missing; see `sluice new --help`');
    const answer = text === undefined ? new Mistake('an answer is needed') : read(text);
    if (!(answer instanceof Mistake)) return answer;
    if (!isAsked) throw new CommandError(answer.message);
    print(`${answer.message}\n`);
  }
}

function publisherNamed(text: string, publishers: readonly Publisher[]): Publisher | Mistake {
  const plain = (name: string) => name.toLowerCase().replace(/[^a-z0-9]/g, '');
  const found = publishers.find(({ names }) => names.some((name) => plain(name) === plain(text)));
  if (found !== undefined) return found;
  const names = publishers.map((publisher) => publisher.names[0] ?? '');
  const nearest = didYouMean(text, names) || `; the publishers are ${names.join(', ')}.`;
  const others = 'For your own sender use Generic; for other signatures read docs/publishers/custom.md.';
  return new Mistake(`There is no publisher "${text}"${nearest} ${others}`);
}

/** Runs the work with a function that asks on the terminal, or with undefined if there is none. */
async function withQuestions<Result>(use: (ask: Ask) => Promise<Result>): Promise<Result> {
  if (!process.stdin.isTTY || !process.stdout.isTTY) return use(undefined);
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  const ended = new Promise<never>((_, failed) => {
    terminal.once('close', () => failed(new CommandError('\nNothing was written')));
  });
  try {
    return await use((question) => Promise.race([terminal.question(question), ended]));
  } finally {
    ended.catch(() => {});
    terminal.close();
  }
}

type NewManifest = ReturnType<typeof manifestFor>;

function manifestFor({ publisher, slug, key, mode, name }: Answers, { publicUrl }: Settings) {
  const { manifest, inputs } = publisher;
  const [triggerKey = 'webhook'] = Object.keys(manifest.triggers);
  const { webhookPublicUrl, webhookHmacKey, ...rest } = inputs;
  const own: WebhookInputs = {
    ...rest,
    webhookSlug: slug,
    ...(key !== undefined && { webhookHmacKey: key }),
    ...(webhookPublicUrl !== undefined && publicUrl !== undefined && { webhookPublicUrl: urlOf(slug, publicUrl) }),
    webhookEnforcementMode: mode,
  };
  const triggers = { [triggerKey]: { type: 'webhook', inputs: own } };
  return { ...manifest, id: randomUUID(), name, version: '1', triggers };
}

/** What the manifest cannot be loaded for, but for secrets that are not there yet. */
function refuseMistakes(manifest: NewManifest, file: string, { extensions }: CommandContext): void {
  const readSecret = () => ({ value: 'a secret that is set later' });
  const { issues } = parseManifest(JSON.stringify(manifest), file, { ...extensions.rules.folder, readSecret });
  const errors = issues.filter(({ severity, path }) => severity === 'error' && !/Key$|Token$/.test(path));
  if (errors.length > 0) throw new CommandError(errors.map(formatIssue).join('\n'));
}

async function writeOnce(file: string, manifest: NewManifest): Promise<void> {
  try {
    await writeFile(file, `${JSON.stringify(manifest, null, 2)}\n`, { flag: 'wx' });
  } catch (error) {
    if (!(error instanceof Error && 'code' in error)) throw error;
    const why = error.code === 'EEXIST' ? 'already exists and is not changed; choose another --slug' : error.message;
    throw new CommandError(`${file} ${why}`);
  }
}

function urlOf(slug: string, publicUrl: string | undefined): string {
  return `${publicUrl ?? 'https://YOUR-HOST'}/flows/api/webhook/${slug}`;
}

interface Written {
  readonly file: string;
  readonly manifest: NewManifest;
  readonly answers: Answers;
  readonly settings: Settings;
}

/** What is left to do, in order. */
function instructions({ file, manifest, answers, settings }: Written): string[] {
  const { publisher, slug, mode } = answers;
  const url = urlOf(slug, settings.publicUrl);
  const scheme = publisher.inputs.webhookSignatureScheme;
  const host = 'YOUR-HOST is the public address of the service; set SLUICE_PUBLIC_URL to see the full URL here';
  const signsUrl = publisher.inputs.webhookPublicUrl !== undefined && settings.publicUrl === undefined;
  return [
    `Wrote ${file}: flow "${manifest.name}" with the id ${manifest.id}, signed as ${scheme}, ${mode}.`,
    '',
    `URL:  ${url}`,
    ...(settings.publicUrl === undefined ? [host] : []),
    ...(signsUrl
      ? [`${publisher.title} signs the URL: set SLUICE_PUBLIC_URL, or webhookPublicUrl in the manifest.`]
      : []),
    ...secretLines(manifest),
    '',
    `At the publisher (${publisher.title}):`,
    plainText(publisher.steps, publisher.inputs.webhookSlug ?? '').replaceAll('{URL}', url),
    '',
    'Then:',
    '  npx sluice check             says what the manifest leaves open',
    '  restart the service          it reads new manifests and their keys when it starts',
    ...(answers.key === undefined ? [] : [`  npx sluice send ${slug.padEnd(12)} sends a signed sample delivery`]),
  ];
}

/** Where the values of all references have to be put. */
function secretLines({ triggers }: NewManifest): string[] {
  const inputs = Object.values(triggers)[0]?.inputs ?? {};
  const references = [
    ...new Set(
      Object.values(inputs).filter((value): value is string => typeof value === 'string' && isReference(value)),
    ),
  ];
  return references.map((reference) => {
    const [, kind = '', name = ''] = /^(env|file):(.*)$/i.exec(reference) ?? [];
    return kind.toLowerCase() === 'env'
      ? `Key:  into the variable ${name}, in the environment of the service or in the file .env: ${name}=…`
      : `Key:  into the file ${name}; the path starts at the folder of the manifests`;
  });
}

/** Markdown of a page as text for a terminal, with `{URL}` where the page has the URL of its example. */
function plainText(markdown: string, slug: string): string {
  return markdown
    .replaceAll(`https://hooks.example.com/flows/api/webhook/${slug}`, '{URL}')
    .replaceAll('the trigger below', 'this manifest')
    .replace(/\*\*(.+?)\*\*/gs, '$1')
    .replace(/\[([^\]]+)\]\([^)]+\)/g, '$1')
    .replace(/<(https?:[^>]+)>/g, '$1');
}
