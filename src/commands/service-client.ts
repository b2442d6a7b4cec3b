import type { Settings } from '../config/settings-schema.ts';
import { maskUrl } from '../manifest/mask.ts';
import { CommandError } from './context.ts';

/** A running service as a command talks to it. */
export interface ServiceClient {
  /** Yields the body of the answer. Throws `CommandError` without an answer, and if it is not JSON or has another status. */
  ask(request: ServiceRequest): Promise<{ readonly status: number; readonly body: unknown }>;
  /** An answer of 200 that is not JSON, to be read by the caller. Throws `CommandError` without one. */
  open(path: string): Promise<Response>;
}

interface ServiceRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Begins with a slash. */
  readonly path: string;
  readonly body?: string;
  /** Statuses other than 200 whose answer the caller reads. */
  readonly accepts?: readonly number[];
}

export interface Credentials {
  readonly token?: string;
  /** `name:password`. */
  readonly user?: string;
}

/** Options win over the settings, a token over a name. */
export function createServiceClient(base: string, given: Credentials, settings: Settings): ServiceClient {
  if (!/^https?:\/\/[^?#]+$/i.test(base) || !URL.canParse(base)) {
    throw new CommandError(`"${maskUrl(base)}": expected an absolute URL such as http://127.0.0.1:3000`);
  }
  if (new URL(base).username !== '' || new URL(base).password !== '') {
    throw new CommandError(`"${maskUrl(base)}": give the credentials with --token or --user, not in the URL`);
  }
  const authorization = authorizationOf(given, settings);
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
    async ask({ method, path, body, accepts = [] }) {
      const url = `${root}${path}`;
      const headers = {
        accept: 'application/json',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(authorization === undefined ? {} : { authorization }),
      };
      const init = body === undefined ? { method, headers } : { method, headers, body };
      const response = await send(url, init);
      const answer = await readBody(response, url);
      if (response.status === 200 || accepts.includes(response.status))
        return { status: response.status, body: answer };
      throw new CommandError(`${method} ${url}: ${response.status} ${messageOf(answer)}${hintOf(response.status)}`);
    },
  };
}

/** A deployed flow, as far as commands read it. */
export interface ServedFlow {
  readonly id: string;
  readonly name: string;
  readonly triggers: readonly { readonly key: string; readonly type: string; readonly slug?: string | null }[];
}

const FLOWS_A_PAGE = 500;

/** All flows that the service has. */
export async function listFlows(client: ServiceClient): Promise<ServedFlow[]> {
  const flows: ServedFlow[] = [];
  for (let skip = 0; ; skip += FLOWS_A_PAGE) {
    const path = `/flows/api/flows?skip=${skip}&take=${FLOWS_A_PAGE}`;
    const { body } = await client.ask({ method: 'GET', path });
    if (!Array.isArray(body)) throw new CommandError('The answer is not a list of flows; is it a Sluice service?');
    const page = body as ServedFlow[];
    flows.push(...page);
    if (page.length < FLOWS_A_PAGE) return flows;
  }
}

/** A webhook of a deployed flow. */
interface ServedWebhook {
  readonly flowId: string;
  readonly key: string;
  /** Slug, or where there is none, the name of the flow. */
  readonly name: string;
}

/** The webhooks that a slug or the GUID of a flow names, or all of them. Throws `CommandError` where there is none. */
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
    `There is no webhook "${slugOrId}"; the webhooks are: ${all.map(({ slug }) => slug).join(', ') || 'none'}`,
  );
}

function authorizationOf({ token, user }: Credentials, settings: Settings): string | undefined {
  const bearer = token ?? (user === undefined ? settings.dashboardToken : undefined);
  if (bearer !== undefined) return `Bearer ${bearer}`;
  const { dashboardUser, dashboardPassword } = settings;
  const fromSettings = dashboardUser === undefined ? undefined : `${dashboardUser}:${dashboardPassword ?? ''}`;
  const basic = user ?? fromSettings;
  if (basic === undefined) return undefined;
  if (!basic.includes(':')) throw new CommandError('--user: expected a name and a password, separated by a colon');
  return `Basic ${Buffer.from(basic).toString('base64')}`;
}

/** No service answers, or none that can be reached. */
export class NoAnswerError extends CommandError {}

async function send(url: string, init: RequestInit): Promise<Response> {
  try {
    // Credentials and manifests go where they were sent, and nowhere else.
    return await fetch(url, { ...init, redirect: 'error' });
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
    throw new NoAnswerError(`${init.method} ${url}: ${cause}; is the service running?`);
  }
}

async function readBody(response: Response, url: string): Promise<unknown> {
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch {
    throw new CommandError(`${url}: ${response.status}, and the answer is not JSON; is it a Sluice service?`);
  }
}

function messageOf(answer: unknown): string {
  const { message } = (typeof answer === 'object' && answer !== null ? answer : {}) as { message?: unknown };
  return typeof message === 'string' ? message : '';
}

function hintOf(status: number): string {
  if (status !== 401 && status !== 403) return '';
  return '; give --token or --user, or set SLUICE_DASHBOARD_TOKEN, or SLUICE_DASHBOARD_USER and SLUICE_DASHBOARD_PASSWORD';
}
