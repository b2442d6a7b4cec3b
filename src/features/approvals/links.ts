import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { hasPlaceholder } from '../../expressions/template.ts';
import { ConversionError } from '../../expressions/values.ts';
import type { StepsAtWork } from '../../flows/steps-at-work.ts';
import { type WaitLinks, waitsSeenFrom } from '../../flows/wait-links.ts';
import { DAY_MS, MINUTE_MS } from '../../model/clock.ts';
import { isJsonArray, type JsonObject } from '../../model/json.ts';
import { parseRuntimeKey } from '../../model/runtime-keys.ts';
import { withoutUser } from '../../model/text.ts';

export const ANSWERS = '/flows/api/webhook/answers';

/** Counted from the start of the run, so that every attempt of a step gets the same link. */
const VALID_DAYS = 90;
/** The router takes 512 characters; a step key in loops with long keys can need nearly as many. */
const MAX_TOKEN = 500;
const MAC_BYTES = 16;
const ID_BYTES = 16;

/** The step that a link answers. */
export interface Link {
  readonly runId: string;
  /** Runtime key of the step that waits, or will wait. */
  readonly stepKey: string;
  readonly expiresAt: number;
}

/** The question of a step, from its inputs in the manifest. */
export interface Question {
  readonly choices: readonly string[];
  /** Null without a question, or if it is known only from the recorded inputs once the step waits. */
  readonly text: string | null;
  /** The signal that it waits for; undefined if that is known only once it waits. */
  readonly signalName: string | undefined;
}

type Connections = Parameters<StepsAtWork['connect']>[0];

/** Makes links and reads them. */
export class AnswerLinks {
  readonly #publicUrl: () => string | undefined;
  #connections: Connections | undefined;
  #key: Uint8Array | undefined;

  constructor(publicUrl: () => string | undefined) {
    this.#publicUrl = publicUrl;
  }

  connect(connections: Connections): void {
    this.#connections = connections;
  }

  get isOn(): boolean {
    return this.#publicUrl() !== undefined;
  }

  /** Wakes steps that got an answer. */
  onAnswered(): void {
    this.#connections?.onReleased();
  }

  readonly waits: WaitLinks = async ({ runId, flowId, revision, stepKey, startedAt }, given) => {
    const { graph } = await this.#connected().catalog.pinned(flowId, revision);
    const key = await this.#ownKey();
    const expiresAt = startedAt + VALID_DAYS * DAY_MS;
    const links = Array.from(waitsSeenFrom(graph, stepKey), ([name, waiting]) => {
      const link = () => this.#urlOf(seal(key, { runId, stepKey: waiting, expiresAt }), name);
      return [name, linkOf(link, given)] as const;
    });
    return Object.fromEntries(links);
  };

  /** Undefined unless this service made the token. */
  async open(token: string): Promise<Link | undefined> {
    return open(await this.#ownKey(), token);
  }

  /** Undefined if the step takes no answers by links in this revision. */
  async questionOf(flowId: string, stepKey: string, revision: number): Promise<Question | undefined> {
    const { inputs } = await this.#connected().catalog.inputsOf({ flowId, stepKey, revision });
    return questionIn(inputs.written, stepKey);
  }

  #connected(): Connections {
    if (this.#connections === undefined) throw new Error('no service runs that could give links');
    return this.#connections;
  }

  /** The key is in the database, so that replicas and later processes accept the links. */
  async #ownKey(): Promise<Uint8Array> {
    this.#key ??= await this.#connected().store.keepSecret({ name: 'answers', secret: randomBytes(32) });
    return this.#key;
  }

  #urlOf(token: string, name: string): string {
    const base = this.#publicUrl();
    if (base === undefined) throw new ConversionError(`waits.${name} has no link: SLUICE_PUBLIC_URL is not set`);
    if (token.length > MAX_TOKEN)
      throw new ConversionError(`waits.${name} has no link: the keys around it are too long`);
    return `${withoutUser(base)}${ANSWERS}/${token}`;
  }
}

function linkOf(make: () => string, given: string[]): { readonly url: string } {
  return {
    get url() {
      const url = make();
      if (!given.includes(url)) given.push(url);
      return url;
    },
  };
}

export function questionIn({ choices, question, signalName }: JsonObject, stepKey: string): Question | undefined {
  if (choices === undefined || !isJsonArray(choices)) return undefined;
  const names = choices.filter((choice) => typeof choice === 'string' && !hasPlaceholder(choice));
  if (names.length !== choices.length) return undefined;
  const name = signalName ?? parseRuntimeKey(stepKey).localKey;
  return {
    choices: names as string[],
    text: typeof question === 'string' && !hasPlaceholder(question) ? question : null,
    signalName: typeof name === 'string' && !hasPlaceholder(name) ? name : undefined,
  };
}

export function seal(key: Uint8Array, { runId, stepKey, expiresAt }: Link): string {
  const head = Buffer.alloc(ID_BYTES + 4);
  head.write(runId.replaceAll('-', ''), 'hex');
  head.writeUInt32BE(Math.ceil(expiresAt / MINUTE_MS), ID_BYTES);
  const said = Buffer.concat([head, Buffer.from(stepKey)]);
  return Buffer.concat([macOf(key, said), said]).toString('base64url');
}

function open(key: Uint8Array, token: string): Link | undefined {
  if (token.length > MAX_TOKEN) return undefined;
  const bytes = Buffer.from(token, 'base64url');
  const said = bytes.subarray(MAC_BYTES);
  // Several texts decode to the same bytes; we accept only the one that we gave out.
  if (said.length <= ID_BYTES + 4 || bytes.toString('base64url') !== token) return undefined;
  if (!timingSafeEqual(bytes.subarray(0, MAC_BYTES), macOf(key, said))) return undefined;
  const runId = said.toString('hex', 0, ID_BYTES).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  const stepKey = said.toString('utf8', ID_BYTES + 4);
  return { runId, stepKey, expiresAt: said.readUInt32BE(ID_BYTES) * MINUTE_MS };
}

function macOf(key: Uint8Array, said: Buffer): Buffer {
  return createHmac('sha256', key).update(said).digest().subarray(0, MAC_BYTES);
}
