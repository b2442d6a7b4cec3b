import { isLoopbackHost } from '../config/settings.ts';
import type { Settings } from '../config/settings-schema.ts';
import { isObject } from '../manifest/json-text.ts';
import { maskRefusedUrl, maskUrl } from '../manifest/mask.ts';
import { CommandError, readCommandSettings, serviceUrl } from './context.ts';
import { noSuch } from './lists.ts';

/** A running service, as seen by a command. */
export interface ServiceClient {
  /** Yields the answer's body. Throws `RefusedError` for another status, `CommandError` without an answer or JSON. */
  ask(request: ServiceRequest): Promise<{ readonly status: number; readonly body: unknown }>;
  /** A 200 answer that is not JSON, for the caller to read. Throws `CommandError` without one. */
  open(path: string): Promise<Response>;
}

interface ServiceRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Begins with a slash. */
  readonly path: string;
  readonly body?: string;
  /** Statuses other than 200 whose answer the caller reads. */
  readonly accepts?: readonly number[];
  /** Whether the caller takes any JSON; otherwise the answer must be an object or a list of objects. */
  readonly takesAny?: boolean;
  /** An example of a 200's answer; one of another form is refused, see `isLike`. */
  readonly like?: Example;
}

/** A text, a number, `true`, a list of one example for all its items, fields with their examples, or null for anything. */
export type Example = string | number | boolean | null | readonly Example[] | { readonly [field: string]: Example };

/** Whether a value has the form of an example. It can have other fields. */
export function isLike(value: unknown, example: Example): boolean {
  if (example === null) return true;
  if (Array.isArray(example))
    return Array.isArray(value) && (example.length === 0 || value.every((item) => isLike(item, example[0])));
  if (!isObject(example)) return typeof value === typeof example;
  return isObject(value) && Object.entries(example).every(([name, inner]) => isLike(value[name], inner));
}

/** The path of a list with the given parameters; leaves out undefined and `false`. */
export function listPath(
  path: string,
  parameters: Readonly<Record<string, string | number | boolean | undefined>>,
): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== false) query.set(name, String(value));
  }
  return query.size === 0 ? path : `${path}?${query}`;
}

/** Requests a list of items like the example. Throws `CommandError` if the answer is not one. */
export async function askList(client: ServiceClient, path: string, example: Example = {}): Promise<unknown[]> {
  const { body } = await client.ask({ method: 'GET', path, like: [example] });
  return body as unknown[];
}

export interface Credentials {
  readonly token?: string;
  /** `name:password`. */
  readonly user?: string;
}

/** The options of `withService`. */
export interface ServiceOptions extends Credentials {
  readonly to?: string;
}

/** The service that the options name, or that of the settings, which are read if not given. */
export async function clientOf(options: ServiceOptions, settings?: Settings): Promise<ServiceClient> {
  const known = settings ?? (await readCommandSettings());
  return createServiceClient(options.to ?? serviceUrl(known), options, known);
}

export function createServiceClient(base: string, given: Credentials, settings: Settings): ServiceClient {
  if (!/^https?:\/\/[^?#]+$/i.test(base) || !URL.canParse(base)) {
    throw new CommandError(`"${maskRefusedUrl(base)}": expected an absolute URL such as http://127.0.0.1:3000`);
  }
  if (new URL(base).username !== '' || new URL(base).password !== '') {
    throw new CommandError(`"${maskUrl(base)}": give the credentials with --token or --user, not in the URL`);
  }
  const authorization = authorizationOf(base, given, settings);
  const hintOf = hintFor(base, settings);
  const root = base.replace(/\/+$/, '');
  return {
    async open(path) {
      const url = `${root}${path}`;
      const response = await send(url, {
        method: 'GET',
        headers: authorization === undefined ? {} : { authorization },
      });
      if (response.status === 200) return response;
      const answer = await readBody(response, url);
      throw new CommandError(`GET ${url}: ${response.status} ${messageOf(answer)}${hintOf(response.status)}`);
    },
    async ask({ method, path, body, accepts = [], takesAny = false, like = null }) {
      const url = `${root}${path}`;
      const headers = {
        accept: 'application/json',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(authorization === undefined ? {} : { authorization }),
      };
      const init = body === undefined ? { method, headers } : { method, headers, body };
      const response = await send(url, init);
      const answer = await readBody(response, url);
      const isAccepted = response.status === 200 || accepts.includes(response.status);
      const isOfService =
        takesAny ||
        ((Array.isArray(answer) ? answer : [answer]).every(isObject) &&
          (response.status !== 200 || isLike(answer, like)));
      if (isAccepted && !isOfService) throw new CommandError(`${url}: the answer is not that of a Sluice service`);
      if (isAccepted) return { status: response.status, body: answer };
      throw new RefusedError(answer, {
        status: response.status,
        told: `${method} ${url}: ${response.status} ${messageOf(answer)}${hintOf(response.status)}`,
      });
    },
  };
}

/** The part of a deployed flow that commands read. */
export interface ServedFlow {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  readonly revision: number;
  readonly isEnabled: boolean;
  readonly drainingSince: string | null;
  readonly held: number;
  readonly triggers: readonly { readonly key: string; readonly type: string; readonly slug?: string | null }[];
}

const FLOWS_A_PAGE = 500;
const FLOW = { id: '', name: '', triggers: [{ key: '', type: '' }] };

/** All flows of the service; the built-in one only on request. */
export async function listFlows(client: ServiceClient, includeBuiltIn = false): Promise<ServedFlow[]> {
  const flows: ServedFlow[] = [];
  for (let skip = 0; ; skip += FLOWS_A_PAGE) {
    const path = `/flows/api/flows?skip=${skip}&take=${FLOWS_A_PAGE}${includeBuiltIn ? '&includeBuiltIn=true' : ''}`;
    const { body } = await client.ask({ method: 'GET', path, like: [FLOW] });
    const page = body as ServedFlow[];
    flows.push(...page);
    if (page.length < FLOWS_A_PAGE) return flows;
  }
}

/** The flow with this id or name. Throws `CommandError` if there is none, or several. */
export async function findFlow(client: ServiceClient, name: string): Promise<ServedFlow> {
  const flows = await listFlows(client, true);
  const found = flows.filter((flow) => flow.id === name.toLowerCase() || flow.name === name);
  if (found.length > 1) throw new CommandError(`${found.length} flows have the name "${name}"; give the id`);
  const [flow] = found;
  if (flow !== undefined) return flow;
  throw new CommandError(
    noSuch(
      'flow',
      name,
      flows.map((each) => each.name),
    ),
  );
}

/** The id of the flow with this id or name. An id can belong to a deleted flow. Throws as `findFlow` does. */
export async function flowIdOf(client: ServiceClient, name: string): Promise<string> {
  return isId(name) ? name.toLowerCase() : (await findFlow(client, name)).id;
}

/** Whether a text has the form of a flow, run or delivery id. */
export function isId(text: string): boolean {
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);
}

/** A webhook of a deployed flow. */
interface ServedWebhook {
  readonly flowId: string;
  readonly key: string;
  /** Slug or, without one, the name of the flow. */
  readonly name: string;
}

/** The webhooks that a slug or flow GUID names, or all of them. Throws `CommandError` if there is none. */
export async function findWebhooks(client: ServiceClient, slugOrId: string | undefined): Promise<ServedWebhook[]> {
  const all = (await listFlows(client)).flatMap(({ id, name, triggers }) =>
    triggers
      .filter(({ type }) => type === 'webhook')
      .map(({ key, slug }) => ({ flowId: id, key, name: slug ?? name, slug: slug ?? id })),
  );
  const wanted = slugOrId?.toLowerCase();
  const found = all.filter(({ flowId, slug }) => wanted === undefined || [flowId, slug.toLowerCase()].includes(wanted));
  if (found.length > 0 || wanted === undefined) return found;
  throw new CommandError(
    noSuch(
      'webhook',
      wanted,
      all.map(({ slug }) => slug),
    ),
  );
}

/** Options win over the settings, a token over a name. The settings' credentials are only sent to their own service. */
function authorizationOf(base: string, given: Credentials, settings: Settings): string | undefined {
  const isGiven = given.token !== undefined || given.user !== undefined;
  const { dashboardToken, dashboardUser, dashboardPassword = '' } = settings;
  const own = dashboardUser === undefined ? {} : { user: `${dashboardUser}:${dashboardPassword}` };
  const fromSettings: Credentials = dashboardToken === undefined ? own : { token: dashboardToken };
  const used: Credentials = isGiven ? given : isOwnService(base, settings) ? fromSettings : {};
  if (used.token !== undefined) return `Bearer ${used.token}`;
  if (used.user === undefined) return undefined;
  if (!used.user.includes(':')) throw new CommandError('--user: expected a name and a password, separated by a colon');
  return `Basic ${Buffer.from(used.user).toString('base64')}`;
}

/** Whether an address is that of the service with these settings: by host and port, or by its public URL. */
function isOwnService(base: string, { host, port, publicUrl }: Settings): boolean {
  const url = new URL(base);
  if (publicUrl !== undefined && new URL(publicUrl).origin === url.origin) return true;
  if (port === 0 || url.protocol !== 'http:' || Number(url.port || 80) !== port) return false;
  const name = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const isHere = isLoopbackHost(name) && (isLoopbackHost(host) || host === '0.0.0.0' || host === '::');
  return isHere || name === host.toLowerCase();
}

/** Reasons for a 403 by a rule, not because of the caller. */
const RULES: ReadonlySet<unknown> = new Set(['built_in_flow', 'flow_disabled']);

/** The service refused the request. */
export class RefusedError extends CommandError {
  /** The body of the answer. */
  readonly answer: unknown;
  /** The reason, in the words of the service. */
  readonly why: string;
  /** Its store is away, or it is starting or stopping. */
  readonly isAway: boolean;
  /** The flow, run or delivery does not exist. */
  readonly isUnknown: boolean;
  /** A rule currently forbids it for every caller. */
  readonly isRule: boolean;
  constructor(answer: unknown, { status, told }: { readonly status: number; readonly told: string }) {
    super(told);
    this.answer = answer;
    this.why = messageOf(answer);
    this.isAway = status === 503;
    this.isUnknown = status === 404;
    this.isRule = status === 409 || (status === 403 && isObject(answer) && RULES.has(answer.reason));
  }
}

/** No service answers, or it cannot be reached. */
export class NoAnswerError extends CommandError {}

/** Both are far above what a large database needs. Node would wait for 300 seconds, and then not say so plainly. */
const QUIET_SECONDS = { reading: 60, changing: 240 } as const;

async function send(url: string, init: RequestInit): Promise<Response> {
  const ending = new AbortController();
  const seconds = init.method === 'GET' ? QUIET_SECONDS.reading : QUIET_SECONDS.changing;
  const timer = setTimeout(() => ending.abort(), seconds * 1000);
  try {
    // Credentials and manifests must not follow redirects to another place.
    return await fetch(url, { ...init, redirect: 'error', signal: ending.signal });
  } catch (error) {
    if (ending.signal.aborted)
      throw new NoAnswerError(`${init.method} ${url}: no answer within ${seconds} s; is it a Sluice service?`);
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
    throw new NoAnswerError(`${init.method} ${url}: ${cause}; is the service running?`);
  } finally {
    clearTimeout(timer);
  }
}

async function readBody(response: Response, url: string): Promise<unknown> {
  const text = await readText(response, url);
  try {
    return JSON.parse(text);
  } catch {
    throw new CommandError(`${url}: ${response.status}, and the answer is not JSON; is it a Sluice service?`);
  }
}

/** Streams may be quiet for longer, so this is only for answers with an end. */
async function readText({ body }: Response, url: string): Promise<string> {
  const reader = body?.getReader();
  const seconds = QUIET_SECONDS.reading;
  let isQuiet = false;
  const timer = setTimeout(() => {
    isQuiet = true;
    // Its reader then sees an end.
    reader?.cancel().catch(() => {});
  }, seconds * 1000);
  const decoder = new TextDecoder();
  let text = '';
  try {
    for (let part = await reader?.read(); part?.value !== undefined; part = await reader?.read()) {
      timer.refresh();
      text += decoder.decode(part.value, { stream: true });
    }
  } catch (error) {
    throw new NoAnswerError(`${url}: the answer broke off: ${error instanceof Error ? error.message : String(error)}`);
  } finally {
    clearTimeout(timer);
  }
  if (isQuiet) throw new NoAnswerError(`${url}: the answer stopped for ${seconds} s`);
  return text + decoder.decode();
}

function messageOf(answer: unknown): string {
  const { message } = (typeof answer === 'object' && answer !== null ? answer : {}) as { message?: unknown };
  return typeof message === 'string' ? message : '';
}

function hintFor(base: string, settings: Settings): (status: number) => string {
  return (status) => {
    if (status !== 401 && status !== 403) return '';
    const { dashboardToken, dashboardUser, port, publicUrl } = settings;
    const isWithheld = (dashboardToken ?? dashboardUser) !== undefined && !isOwnService(base, settings);
    if (!isWithheld) {
      return '; give --token or --user, or set SLUICE_DASHBOARD_TOKEN, or SLUICE_DASHBOARD_USER and SLUICE_DASHBOARD_PASSWORD';
    }
    const places = [
      ...(port === 0 ? [] : [serviceUrl(settings)]),
      ...(publicUrl === undefined ? [] : [maskUrl(publicUrl)]),
    ];
    return `; give --token or --user: the credentials of the settings are only sent to ${places.join(' and ') || 'their own service'}`;
  };
}
