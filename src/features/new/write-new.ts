import { appendFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import { CommandError, openContext } from '../../commands/context.ts';
import { clientOf, NoAnswerError, type ServiceOptions } from '../../commands/service-client.ts';
import { ENV_FILE } from '../../config/env-file.ts';
import { processEnvironment } from '../../config/settings.ts';
import type { Settings } from '../../config/settings-schema.ts';
import type { LoadedFlow } from '../../manifest/load.ts';
import { maskUrl } from '../../manifest/mask.ts';
import { isReference } from '../../manifest/read-secret.ts';
import { asName } from '../../manifest/schema.ts';
import type { EnforcementMode } from '../../model/manifest.ts';
import { print } from '../../telemetry/terminal.ts';
import { commandHere } from '../../version.ts';
import { askReload } from '../deploys/command.ts';
import {
  flowsIn,
  forwardLines,
  hostLines,
  mistakeInSlug,
  mistakeInUrl,
  modeNamed,
  type NewManifest,
  placeOfReference,
  publisherManifest,
  referencesOf,
  refuseMistakes,
  urlOf,
  writeManifests,
} from './new-manifest.ts';
import { atTerminal, type Choice, type Person } from './person.ts';
import { knownPublishers, Mistake, type Publisher, publisherNamed } from './publishers.ts';

export interface NewOptions extends ServiceOptions {
  readonly publisher?: string;
  readonly slug?: string;
  readonly key?: string;
  readonly mode?: string;
  readonly name?: string;
  readonly forward?: string;
  readonly generateKey?: boolean;
  readonly manifests?: string;
  /** False with `--no-deploy`. */
  readonly deploy?: boolean;
}

export async function writeNew(options: NewOptions, command: Command): Promise<void> {
  const { envFile = ENV_FILE } = command.optsWithGlobals<{ envFile?: string }>();
  const person = process.stdin.isTTY && process.stdout.isTTY ? await atTerminal() : undefined;
  const written = await writeWebhook(options, { envFile, person });
  print(`${instructions(written).join('\n')}\n`);
  if (options.deploy === false) return;
  const told = await deployNew(written.manifest.id, options, written.settings);
  if (told !== undefined) print(`\n${told}\n`);
}

/** Writes the manifest and its other files; without a person, uses only the options. */
export async function writeWebhook(
  options: NewOptions,
  { envFile, person }: { envFile: string; person: Person | undefined },
): Promise<Written> {
  const context = await openContext(options.manifests);
  const publishers = knownPublishers();
  const answers = await gatherAnswers(options, {
    publishers,
    flows: await flowsIn(options.manifests ?? context.settings.manifests, context),
    person,
    environment: processEnvironment(),
  });
  const folder = options.manifests ?? context.settings.manifests;
  const file = join(folder, `${answers.slug}.json`);
  const manifest = publisherManifest(answers, context.settings);
  refuseMistakes(manifest, file, context);
  await writeManifests(folder, new Map([[file, manifest]]), context);
  const keyFile = answers.generatedKey === undefined ? undefined : envFile;
  if (answers.generatedKey !== undefined)
    await addVariable(envFile, answers.generatedKey, answers.publisher.signing.randomKey());
  return { file, manifest, answers, settings: context.settings, keyFile };
}

/** A new file is readable by its owner only. Overwrites no variable: something else may use it. */
async function addVariable(file: string, name: string, value: string): Promise<void> {
  const before = await readFile(file, 'utf8').catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return '';
    throw error;
  });
  const separator = before === '' || before.endsWith('\n') ? '' : '\n';
  await appendFile(file, `${separator}${name}=${value}\n`, { mode: 0o600 });
}

interface Answers {
  readonly publisher: Publisher;
  readonly slug: string;
  /** Undefined if the publisher hands the key over. */
  readonly key: string | undefined;
  /** The variable for a generated key; undefined if the key comes from elsewhere. */
  readonly generatedKey: string | undefined;
  readonly mode: EnforcementMode;
  /** Where each delivery is forwarded; undefined if it is logged. */
  readonly forward: string | undefined;
  readonly name: string;
}

interface Known {
  readonly publishers: readonly Publisher[];
  readonly flows: readonly LoadedFlow[];
  /** Undefined without a terminal: missing options then take the proposed values. */
  readonly person: Person | undefined;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** Takes what the options give, and asks for the rest. */
export async function gatherAnswers(options: NewOptions, known: Known): Promise<Answers> {
  const { flows, person } = known;
  const publisher = await choosePublisher(options.publisher, known);
  const slug = await settle(options.slug, {
    person,
    message: 'Last part of the URL',
    proposal: publisher.inputs.webhookSlug ?? '',
    read: (text) => {
      const mistake = mistakeInSlug(text, flows);
      return mistake === undefined ? text : new Mistake(mistake);
    },
  });
  const { webhookHmacKey } = publisher.inputs;
  const key =
    webhookHmacKey === undefined && options.key === undefined
      ? undefined
      : await settle(options.key, {
          person,
          message: 'Where the key is (env:NAME or file:PATH)',
          proposal: [webhookHmacKey ?? ''].flat()[0] ?? '',
          read: (text) =>
            isReference(text) ? text : new Mistake('expected env:NAME or file:PATH: the key stays out of the manifest'),
        });
  const generatedKey = await chooseGeneratedKey(key, { publisher, options, known });
  const mode = await chooseMode(options.mode, person);
  const forward = await chooseFirstStep(options.forward, person);
  const { name } = publisher.flow('');
  const isUsual = slug === publisher.inputs.webhookSlug;
  return {
    publisher,
    slug,
    key,
    generatedKey,
    mode,
    forward,
    name: options.name ?? asName(isUsual ? name : `${name} ${slug}`),
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

/** The variable for a generated key, if one is needed. */
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
  return modeNamed(given);
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

interface Written {
  readonly file: string;
  readonly manifest: NewManifest;
  readonly answers: Answers;
  readonly settings: Settings;
  /** The file that the key was written to. */
  readonly keyFile: string | undefined;
}

/** The remaining steps, in order. */
function instructions({ file, manifest, answers, settings, keyFile }: Written): string[] {
  const { publisher, slug, mode } = answers;
  const url = maskUrl(urlOf(slug, settings.publicUrl));
  const scheme = publisher.inputs.webhookSignatureScheme;
  const signsUrl = publisher.inputs.webhookPublicUrl !== undefined && settings.publicUrl === undefined;
  return [
    `Wrote ${file}: flow "${manifest.name}" with the id ${manifest.id}, signed as ${scheme}, ${mode}.`,
    '',
    `URL:  ${url}`,
    ...hostLines(settings, manifest),
    ...(signsUrl
      ? [`${publisher.title} signs the URL: set SLUICE_PUBLIC_URL, or webhookPublicUrl in the manifest.`]
      : []),
    ...(answers.generatedKey === undefined
      ? []
      : [`Key:  made up and written to ${keyFile} as ${answers.generatedKey}; enter the same value at the publisher`]),
    ...secretLines(manifest, answers),
    ...forwardLines(answers.forward, settings),
    '',
    `At the publisher (${publisher.title}):`,
    ...publisher.clickPath.map((step, at) => `${at + 1}. ${plainText(step).replaceAll('{URL}', url)}`),
    '',
    'Then:',
    `  ${commandHere()} check             says what the manifest leaves open`,
    `  ${commandHere()} reload            has a running service read new manifests and their keys`,
    `  ${trial(answers)}`,
  ];
}

/** How to try the webhook. */
function trial({ publisher, slug, key }: Answers): string {
  if (key === undefined)
    return `let ${publisher.title} send    it hands the key over first; until then nothing can be signed`;
  const { signsWithSameKey: isSignable } = publisher.signing;
  if (isSignable === true) return `${commandHere()} send ${slug.padEnd(12)} sends a signed sample delivery`;
  if (isSignable === undefined)
    return `${commandHere()} send ${slug.padEnd(12)} sends a signed sample delivery, if the key is a secret`;
  return `let ${publisher.title} send    it alone has the private key, so \`sluice send\` cannot sign for it`;
}

/** Where to put the values of all references. */
function secretLines(manifest: NewManifest, { generatedKey }: Answers): string[] {
  const open = referencesOf(manifest).filter((reference) => reference.slice('env:'.length) !== generatedKey);
  return open.map((reference) => `Key:  ${placeOfReference(reference)}`);
}

/** A step in Markdown as plain text for a terminal. */
function plainText(markdown: string): string {
  return markdown
    .replaceAll('the trigger below', 'this manifest')
    .replace(/\*\*(.+?)\*\*/g, '$1')
    .replace(/\[([^\]]+)\]\([^)]+\)/g, '$1')
    .replace(/<(https?:[^>]+)>/g, '$1');
}

/**
 * Asks the service to deploy a flow just written into its folder, and yields the result as a message; undefined if no
 * service answers. If other files of the folder changed, deploys nothing: they are somebody's work.
 */
async function deployNew(flowId: string, options: ServiceOptions, settings: Settings): Promise<string | undefined> {
  // With these settings, the service listens on any free port.
  if (options.to === undefined && settings.port === 0) return undefined;
  const reload = `${commandHere()} reload`;
  try {
    const client = await clientOf(options, settings);
    // The plan lacks the new key, because a dry run does not read `.env`.
    const { outcomes = [], unreadable = [] } = (await askReload(client, { isPlan: true })).body;
    const changed = outcomes.filter(({ action }) => action !== 'unchanged');
    const hasOthers = [...changed, ...unreadable].some((each) => each.flowId !== flowId);
    if (![...outcomes, ...unreadable].some((each) => each.flowId === flowId)) {
      return `Not deployed: the service that answers does not read this folder, or refuses all of it; ${commandHere()} deploy says more.`;
    }
    if (hasOthers) {
      return `Not deployed: other manifests of the folder changed too, or cannot be read; ${reload} deploys them together.`;
    }
    const { body: answer } = await askReload(client, { isPlan: false });
    const own = answer.outcomes?.find((outcome) => outcome.flowId === flowId);
    if (own !== undefined && own.refusal === null)
      return `Deployed by the service that answers, as revision ${own.revision}.`;
    const why = own?.refusal ?? answer.unreadable?.find((each) => each.flowId === flowId)?.why;
    return `Not deployed: ${why ?? 'the service did not find it'}; then: ${reload}`;
  } catch (error) {
    if (error instanceof NoAnswerError) return undefined;
    if (error instanceof CommandError) return `Not deployed: ${error.message}; then: ${reload}`;
    throw error;
  }
}
