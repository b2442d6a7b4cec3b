import { randomBytes, randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { appendFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { Command } from 'commander';
import { ENV_FILE } from '../config/env-file.ts';
import { isLoopbackHost, processEnvironment } from '../config/settings.ts';
import type { Settings } from '../config/settings-schema.ts';
import { didYouMean, formatIssue } from '../manifest/issues.ts';
import { type LoadedFlow, parseManifest } from '../manifest/load.ts';
import { isReference } from '../manifest/read-secret.ts';
import type { WebhookInputs } from '../manifest/webhook-inputs.ts';
import { ENFORCEMENT_MODES, type EnforcementMode } from '../model/manifest.ts';
import { print } from '../telemetry/terminal.ts';
import { BUILT_IN_SCHEMES } from '../webhooks/schemes/publishers/index.ts';
import { createSchemeRegistry, resolveScheme } from '../webhooks/schemes/resolve.ts';
import { randomKey, signsWithSameKey } from '../webhooks/schemes/sign.ts';
import type { SignatureSpec } from '../webhooks/schemes/spec.ts';
import { type CommandContext, CommandError, openContext, reporting } from './context.ts';
import { atTerminal, beginsWith, type Choice, type Person, plainName } from './person.ts';
import { schemaText } from './schema.ts';

interface NewOptions {
  readonly publisher?: string;
  readonly slug?: string;
  readonly key?: string;
  readonly mode?: string;
  readonly name?: string;
  readonly forward?: string;
  readonly generateKey?: boolean;
  readonly manifests?: string;
}

export function newCommand(): Command {
  return new Command('new')
    .description(
      'Write a manifest for a publisher’s webhook, and print what to enter at the publisher; asks on a terminal',
    )
    .option(
      '--publisher <name>',
      'the publisher or the beginning of its name: GitHub, Stripe, … or Generic for your own sender',
    )
    .option('--slug <slug>', 'last part of the URL; default: named after the publisher')
    .option(
      '--key <reference>',
      'where the key is: env:NAME or file:PATH; default: a variable named after the publisher',
    )
    .option('--mode <mode>', `${ENFORCEMENT_MODES.join(', ')}; default: Enforce`)
    .option('--forward <url>', 'first step: send each delivery on to this URL; default: log it')
    .option('--generate-key', `make up the key, where you choose it, and write it to ${ENV_FILE}`)
    .option('--no-generate-key', 'do not ask whether to')
    .option('--name <name>', 'name of the flow; default: named after the publisher')
    .option('--manifests <folder>', 'the folder to write to; default: the manifests folder of the settings')
    .addHelpText('after', '\nNever overwrites a file. Exits with 2 if nothing was written.')
    .action(reporting(writeNew));
}

async function writeNew(options: NewOptions, command: Command): Promise<void> {
  const { envFile = ENV_FILE } = command.optsWithGlobals<{ envFile?: string }>();
  const context = await openContext(options.manifests);
  const publishers = readPublishers();
  const person = process.stdin.isTTY && process.stdout.isTTY ? await atTerminal() : undefined;
  const answers = await gatherAnswers(options, {
    publishers,
    flows: context.flows,
    person,
    environment: processEnvironment(),
  });
  const folder = options.manifests ?? context.settings.manifests;
  const file = join(folder, `${answers.slug}.json`);
  const manifest = manifestFor(answers, context.settings);
  refuseMistakes(manifest, file, context);
  await mkdir(folder, { recursive: true }).catch((error: Error) => {
    throw new CommandError(`The folder ${folder} cannot be made: ${error.message}`);
  });
  await writeOnce(file, manifest);
  const keyFile = answers.generatedKey === undefined ? undefined : envFile;
  if (answers.generatedKey !== undefined)
    await addVariable(envFile, answers.generatedKey, answers.publisher.signing.randomKey());
  // The manifest names it, for editors.
  await writeFile(join(folder, 'manifest.schema.json'), schemaText(context.extensions), { flag: 'wx' }).catch(() => {});
  print(`${instructions({ file, manifest, answers, settings: context.settings, keyFile }).join('\n')}\n`);
}

/** Readable by its owner alone, where it is new. Overwrites no variable: something else may use it. */
async function addVariable(file: string, name: string, value: string): Promise<void> {
  const before = await readFile(file, 'utf8').catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return '';
    throw error;
  });
  const separator = before === '' || before.endsWith('\n') ? '' : '\n';
  await appendFile(file, `${separator}${name}=${value}\n`, { mode: 0o600 });
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
  readonly signing: Signing;
}

/** What is to be known of a scheme before there is a trigger. */
interface Signing {
  readonly keyIsChosen: boolean;
  /** Whether a key of the trigger also signs, as far as its scheme says; undefined where the key decides. */
  readonly signsWithSameKey: boolean | undefined;
  randomKey(): string;
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
  const publishers = readdirSync(folder).flatMap((page) => {
    const text = readFileSync(join(folder, page), 'utf8');
    const [, title = ''] = /^# (.+)$/m.exec(text) ?? [];
    const [, scheme] = /^Scheme `(\w+)`/m.exec(text) ?? [];
    const [, steps = ''] = /^## At the publisher\n+([\s\S]*?)\n+## /m.exec(text) ?? [];
    const [, json = ''] = /```json\n([\s\S]*?)```/.exec(text) ?? [];
    // The page about schemes of one's own has several manifests, and the index none.
    if (scheme === undefined || steps === '') return [];
    const spec = BUILT_IN_SCHEMES.find(({ name }) => name === scheme);
    const manifest = JSON.parse(json) as PublisherManifest;
    const inputs = Object.values(manifest.triggers)[0]?.inputs ?? {};
    // Several publishers may use a scheme that is none's own.
    const own = spec === undefined ? [] : [spec.name, ...(spec.aliases ?? [])];
    const names = [...own.slice(0, 1), title, basename(page, '.md'), ...own.slice(1)];
    return [{ page, names, title, steps, manifest, inputs, signing: signingOf(spec ?? sharedSpec(inputs)) }];
  });
  return publishers.sort((a, b) => (a.names[0] ?? '').localeCompare(b.names[0] ?? '', 'en'));
}

/** Of a scheme that the fields of a trigger complete; undefined for that of a standard. */
function sharedSpec(inputs: WebhookInputs): SignatureSpec | undefined {
  const scheme = resolveScheme(createSchemeRegistry(), inputs);
  return scheme?.kind === 'spec' ? scheme.spec : undefined;
}

function signingOf(spec: SignatureSpec | undefined): Signing {
  if (spec === undefined) {
    return { keyIsChosen: false, signsWithSameKey: undefined, randomKey: () => randomBytes(32).toString('hex') };
  }
  return {
    keyIsChosen: spec.keyIsChosen === true,
    signsWithSameKey: signsWithSameKey(spec),
    randomKey: () => randomKey(spec),
  };
}

interface Answers {
  readonly publisher: Publisher;
  readonly slug: string;
  /** Undefined where the publisher hands the key over. */
  readonly key: string | undefined;
  /** The variable that gets a key made up here; undefined where the key comes from elsewhere. */
  readonly generatedKey: string | undefined;
  readonly mode: EnforcementMode;
  /** Where each delivery is sent on to; undefined where it is logged. */
  readonly forward: string | undefined;
  readonly name: string;
}

interface Known {
  readonly publishers: readonly Publisher[];
  readonly flows: readonly LoadedFlow[];
  /** Undefined without a terminal: what is not given is then what would have been proposed. */
  readonly person: Person | undefined;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** Takes what the options say, and asks for the rest. */
export async function gatherAnswers(options: NewOptions, known: Known): Promise<Answers> {
  const { flows, person } = known;
  const publisher = await choosePublisher(options.publisher, known);
  const taken = new Set(flows.flatMap((flow) => flow.webhooks.map(({ inputs }) => inputs.webhookSlug?.toLowerCase())));
  const slug = await settle(options.slug, {
    person,
    message: 'Last part of the URL',
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
          person,
          message: 'Where the key is (env:NAME or file:PATH)',
          proposal: webhookHmacKey ?? '',
          read: (text) =>
            isReference(text) ? text : new Mistake('expected env:NAME or file:PATH: the key stays out of the manifest'),
        });
  const generatedKey = await chooseGeneratedKey(key, { publisher, options, known });
  const mode = await chooseMode(options.mode, person);
  const forward = await chooseFirstStep(options.forward, person);
  const { name } = publisher.manifest;
  const isUsual = slug === publisher.inputs.webhookSlug;
  return {
    publisher,
    slug,
    key,
    generatedKey,
    mode,
    forward,
    name: options.name ?? (isUsual ? name : `${name} ${slug}`),
  };
}

async function choosePublisher(given: string | undefined, { publishers, person }: Known): Promise<Publisher> {
  if (given !== undefined) {
    const found = publisherNamed(given, publishers);
    if (found instanceof Mistake) throw new CommandError(found.message);
    return found;
  }
  if (person === undefined) {
    throw new CommandError(
      '--publisher is missing, and there is no terminal to ask at; for example --publisher GitHub',
    );
  }
  const choices = publishers.map((publisher): Choice<Publisher> => {
    const [label = '', ...names] = publisher.names;
    return { value: publisher, label, names, ...(label === 'Generic' ? { hint: 'your own sender' } : {}) };
  });
  return person.choose('Who sends? Type to search', choices);
}

/** The variable that is to get a key made up here. */
async function chooseGeneratedKey(
  key: string | undefined,
  { publisher, options, known }: { publisher: Publisher; options: NewOptions; known: Known },
): Promise<string | undefined> {
  const [, name] = /^env:(.+)$/i.exec(key ?? '') ?? [];
  const { title, signing } = publisher;
  const isWanted = options.generateKey === true;
  if (!signing.keyIsChosen || name === undefined || !/^[A-Za-z_]\w*$/.test(name)) {
    if (!isWanted) return undefined;
    const why = signing.keyIsChosen
      ? 'the key is not in a variable'
      : `${title} shows a key of its own: copy it from there`;
    throw new CommandError(`--generate-key: ${why}`);
  }
  if (known.environment[name] !== undefined) {
    if (isWanted) throw new CommandError(`--generate-key: ${name} is already set and is not changed`);
    return undefined;
  }
  if (isWanted) return name;
  if (options.generateKey === false || known.person === undefined) return undefined;
  return (await known.person.confirm(`Make up a key and write it to ${ENV_FILE} as ${name}?`)) ? name : undefined;
}

async function chooseMode(given: string | undefined, person: Person | undefined): Promise<EnforcementMode> {
  if (given === undefined) {
    return person === undefined ? 'Enforce' : person.choose('Mode', MODES);
  }
  const mode = ENFORCEMENT_MODES.find((each) => each.toLowerCase() === given.toLowerCase());
  if (mode === undefined) throw new CommandError(`the mode "${given}" is not one of ${ENFORCEMENT_MODES.join(', ')}`);
  return mode;
}

const MODES: readonly Choice<EnforcementMode>[] = [
  { value: 'Enforce', label: 'Enforce', hint: 'what a gate refuses is refused' },
  { value: 'Audit', label: 'Audit', hint: 'everything is accepted, and what Enforce would refuse is recorded' },
  { value: 'Off', label: 'Off', hint: 'everything is accepted' },
];

async function chooseFirstStep(given: string | undefined, person: Person | undefined): Promise<string | undefined> {
  if (given !== undefined) {
    const mistake = mistakeInUrl(given);
    if (mistake !== undefined) throw new CommandError(`--forward: ${mistake}`);
    return given;
  }
  if (person === undefined) return undefined;
  const isForwarded = await person.choose('What happens with each delivery first?', [
    { value: false, label: 'Log it' },
    { value: true, label: 'Send it on to a URL of yours', hint: 'with retries' },
  ]);
  return isForwarded ? person.enter('URL', '', mistakeInUrl) : undefined;
}

function mistakeInUrl(text: string): string | undefined {
  return /^https?:\/\//i.test(text) && URL.canParse(text)
    ? undefined
    : 'expected a URL that begins with http:// or https://';
}

class Mistake {
  readonly message: string;
  constructor(message: string) {
    this.message = message;
  }
}

interface Question {
  readonly person: Person | undefined;
  readonly message: string;
  readonly proposal: string;
  readonly read: (text: string) => string | Mistake;
}

/** A mistake in an option ends the command; a person is asked again. */
async function settle(given: string | undefined, { person, message, proposal, read }: Question): Promise<string> {
  if (given === undefined && person !== undefined) {
    return person.enter(message, proposal, (text) => {
      const answer = read(text);
      return answer instanceof Mistake ? answer.message : undefined;
    });
  }
  const answer = read(given?.trim() || proposal);
  if (answer instanceof Mistake) throw new CommandError(answer.message);
  return answer;
}

function publisherNamed(text: string, publishers: readonly Publisher[]): Publisher | Mistake {
  const exact = publishers.find(({ names }) => names.some((name) => plainName(name) === plainName(text)));
  if (exact !== undefined) return exact;
  const alike = plainName(text) === '' ? [] : publishers.filter(({ names }) => beginsWith(names, text));
  if (alike.length === 1 && alike[0] !== undefined) return alike[0];
  const namesOf = (found: readonly Publisher[]) => found.map(({ names }) => names[0] ?? '');
  const most = namesOf(alike.slice(0, MOST_NAMED)).join(', ');
  const more = alike.length > MOST_NAMED ? ` or ${alike.length - MOST_NAMED} others` : '';
  if (alike.length > 1) return new Mistake(`"${text}" may be ${most}${more}; write more of the name`);
  const nearest =
    didYouMean(
      text,
      // Without titles, which are written in words, and pages.
      new Set(publishers.flatMap(({ names }) => names.filter((name) => /^[A-Z]\w*$/.test(name)))),
    ) || '; `npx sluice schemes` lists them.';
  const others = 'For your own sender use Generic; for other signatures read docs/publishers/custom.md.';
  return new Mistake(`There is no publisher "${text}"${nearest} ${others}`);
}

/** A list of all would be a page. */
const MOST_NAMED = 8;

type NewManifest = ReturnType<typeof manifestFor>;

function manifestFor({ publisher, slug, key, mode, forward, name }: Answers, { publicUrl }: Settings) {
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
  const steps = forward === undefined ? {} : { steps: forwardingTo(forward) };
  return { ...manifest, id: randomUUID(), name, version: '1', triggers, ...steps };
}

function forwardingTo(url: string) {
  return {
    forward: {
      type: 'HttpRequest',
      inputs: { url, method: 'POST', forwardBody: true },
      retry: { maxAttempts: 5, backoffSeconds: 2 },
    },
  };
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
  /** The file that got a key. */
  readonly keyFile: string | undefined;
}

/** What is left to do, in order. */
function instructions({ file, manifest, answers, settings, keyFile }: Written): string[] {
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
    ...(answers.generatedKey === undefined
      ? []
      : [`Key:  made up and written to ${keyFile} as ${answers.generatedKey}; enter the same value at the publisher`]),
    ...secretLines(manifest, answers),
    ...forwardLines(answers, settings),
    '',
    `At the publisher (${publisher.title}):`,
    plainText(publisher.steps, publisher.inputs.webhookSlug ?? '').replaceAll('{URL}', url),
    '',
    'Then:',
    '  npx sluice check             says what the manifest leaves open',
    '  reload the service           it reads new manifests and their keys: SIGHUP, or restart it',
    `  ${trial(answers)}`,
  ];
}

/** How to try the webhook. */
function trial({ publisher, slug, key }: Answers): string {
  if (key === undefined)
    return `let ${publisher.title} send    it hands the key over first; until then nothing can be signed`;
  const { signsWithSameKey: isSignable } = publisher.signing;
  if (isSignable === true) return `npx sluice send ${slug.padEnd(12)} sends a signed sample delivery`;
  if (isSignable === undefined)
    return `npx sluice send ${slug.padEnd(12)} sends a signed sample delivery, if the key is a secret`;
  return `let ${publisher.title} send    it alone has the private key, so \`sluice send\` cannot sign for it`;
}

/** What a step needs before it may call its URL. */
function forwardLines({ forward }: Answers, { egressAllow }: Settings): string[] {
  const host = forward === undefined ? '' : new URL(forward).hostname.replace(/^\[|\]$/g, '');
  if (!isLoopbackHost(host) || egressAllow.length > 0) return [];
  return [
    `Step: steps do not reach this machine by default; set SLUICE_EGRESS_ALLOW=${host === '::1' ? host : '127.0.0.1'}`,
  ];
}

/** Where the values of all references have to be put. */
function secretLines({ triggers }: NewManifest, { generatedKey }: Answers): string[] {
  const inputs = Object.values(triggers)[0]?.inputs ?? {};
  const references = [
    ...new Set(
      Object.values(inputs).filter((value): value is string => typeof value === 'string' && isReference(value)),
    ),
  ];
  const open = references.filter((reference) => reference.slice('env:'.length) !== generatedKey);
  return open.map((reference) => {
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
