import { createHmac, randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createWorkspace, GITHUB_SECRET, type Service, startService, type Workspace } from '../e2e/service.ts';

/** The tokens of an attacker, who is a user with few rights, and of honest users. */
export const TOKENS = {
  deployer: 'deployer-1f0c9d7ab2e84455',
  operator: 'operator-2a6e7f8091b3c4d5',
  reader: 'reader-39b8c7d6e5f40a1b2c',
} as const;
export type Who = keyof typeof TOKENS;

export const LOGIN = { user: 'ops', password: 'a long pass phrase of ours' };

const SCOPES: Readonly<Record<Who, readonly string[]>> = {
  deployer: ['read', 'operate', 'deploy'],
  operator: ['read', 'operate'],
  reader: ['read'],
};

/** Flows by slug, with the inputs in which they differ; without another scheme they use GitHub's. */
const FLOWS = {
  push: { webhookNonceHeader: 'X-GitHub-Delivery' },
  limited: { webhookRateLimitPermitsPerSecond: 1000, webhookRateLimitUnverifiedPermitsPerSecond: 1000 },
  renamed: { webhookNonceHeader: 'X-GitHub-Delivery' },
  added: { webhookReplayToleranceSeconds: 300 },
  removed: { webhookNonceHeader: 'X-GitHub-Delivery', webhookReplayToleranceSeconds: 300 },
  tolerated: { webhookSignatureScheme: 'Stripe', webhookReplayToleranceSeconds: 300 },
  audited: { webhookEnforcementMode: 'Audit', webhookNonceHeader: 'X-GitHub-Delivery' },
  pattern: {
    webhookBodySchema: { type: 'object', properties: { text: { type: 'string', pattern: '^(a+)+$' } } },
  },
  unique: { webhookBodySchema: { type: 'object', properties: { list: { type: 'array', uniqueItems: true } } } },
  recursive: {
    webhookBodySchema: {
      anyOf: [
        { items: { $ref: '#' }, minItems: 1 },
        { items: { $ref: '#' }, maxItems: 1 },
      ],
      not: { type: 'string' },
    },
  },
  lenient: {
    webhookEnforcementMode: 'Off',
    webhookBodySchema: { type: 'object', properties: { text: { type: 'string', pattern: '^(a+)+$' } } },
  },
  filed: { webhookBodySchema: 'file:order.schema.json' },
  events: { webhookSignatureScheme: 'Stripe', webhookEnforcementMode: 'Audit' },
  shared: { webhookShared: true, webhookNonceHeader: 'X-GitHub-Delivery' },
  answering: { webhookEnforcementMode: 'Audit', webhookRespond: { step: 'only', withinSeconds: 5 } },
  filtered: {
    webhookWhen: 'body.list.exists(a, body.list.exists(b, a + b < 0)) || body.pass',
    webhookEventId: 'body.id',
  },
  coalesced: { webhookEnforcementMode: 'Audit', webhookNonceHeader: 'X-GitHub-Delivery' },
  echoing: { webhookEnforcementMode: 'Off', webhookRespond: { step: 'only', withinSeconds: 25 } },
} as const satisfies Readonly<Record<string, Readonly<Record<string, unknown>>>>;
export type Slug = keyof typeof FLOWS;

/** Which deliveries of a flow share runs. The sender can make the key as expensive as wanted with a list. */
const COALESCE: Readonly<Partial<Record<Slug, object>>> = {
  coalesced: {
    key: 'body.list.exists(a, body.list.exists(b, a + b < 0)) ? "none" : body.sku',
    quietSeconds: 3600,
    maxSeconds: 7200,
    collect: 3,
  },
};

/** A flow whose sender writes its step's output, as a called host could. */
const STEPS: Readonly<Partial<Record<Slug, object>>> = {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: an expression of a manifest.
  echoing: { only: { type: 'Transform', inputs: { value: '${trigger.body}' } } },
};

export const idOf = (slug: Slug) =>
  `0b7e2f44-6c1d-4f0e-9a51-${String(Object.keys(FLOWS).indexOf(slug)).padStart(12, '0')}`;

export interface Answer {
  readonly status: number;
  readonly reason: unknown;
  readonly body: Record<string, unknown>;
}

interface Asked {
  readonly by?: Who;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly method?: string;
}

/** The built service under Enforce, and the actions of attackers and honest people over HTTP. */
export interface Target {
  service(): Service;
  readonly workspace: Workspace;
  /** Asks a path under `/flows/api` with someone's token, or with only the headers. */
  ask(path: string, asked?: Asked): Promise<Answer>;
  /** The manifest of a flow with other inputs, name or version. */
  manifest(slug: Slug, inputs?: object, others?: object): Record<string, unknown>;
  /** Deploys that manifest. */
  deploy(slug: Slug, inputs: object, given?: { readonly allow?: string; readonly others?: object }): Promise<Answer>;
  send(slug: Slug, delivery: Delivery): Promise<Answer>;
  runsOf(slug: Slug): Promise<number>;
  /** The page's cookie after a login with a token. */
  logIn(who: Who): Promise<string>;
  restart(signal?: NodeJS.Signals): Promise<void>;
}

export interface OwnTarget extends Target {
  close(): Promise<void>;
}

export interface Delivery {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A delivery in GitHub's form, signed with the flows' key or another. */
export function github(
  body: string = JSON.stringify({ at: randomUUID() }),
  headers: Record<string, string> = {},
  key = GITHUB_SECRET,
): Delivery {
  const signature = `sha256=${createHmac('sha256', key).update(body).digest('hex')}`;
  return {
    body,
    headers: {
      'content-type': 'application/json',
      'x-hub-signature-256': signature,
      'x-github-delivery': randomUUID(),
      ...headers,
    },
  };
}

export function stripe(
  body = JSON.stringify({ type: 'charge.succeeded', id: randomUUID() }),
  key = GITHUB_SECRET,
): Delivery {
  // The service is a process with the machine's clock.
  const at = Math.floor(Date.now() / 1000);
  const signature = createHmac('sha256', key).update(`${at}.${body}`).digest('hex');
  return { body, headers: { 'content-type': 'application/json', 'stripe-signature': `t=${at},v1=${signature}` } };
}

/** The variables name its database. */
export async function startTarget(database: Readonly<Record<string, string>> = {}): Promise<OwnTarget> {
  const workspace = await createWorkspace();
  const manifest: Target['manifest'] = (slug, inputs = {}, others = {}) => ({
    id: idOf(slug),
    name: slug,
    version: '1',
    triggers: {
      hook: {
        type: 'webhook',
        inputs: {
          webhookSlug: slug,
          webhookSignatureScheme: 'GitHub',
          webhookHmacKey: GITHUB_SECRET,
          ...FLOWS[slug],
          ...inputs,
        },
        ...(COALESCE[slug] && { coalesce: COALESCE[slug] }),
      },
      byHand: { type: 'manual' },
    },
    steps: STEPS[slug] ?? { only: { type: 'NoOp' } },
    ...others,
  });
  for (const slug of Object.keys(FLOWS) as Slug[]) await workspace.writeManifest(`${slug}.json`, manifest(slug));
  await writeFile(join(workspace.folder, 'manifests/order.schema.json'), '{"required":["at"]}');
  const tokens = Object.entries(TOKENS).map(([name, token]) => ({ name, token, scopes: SCOPES[name as Who] }));
  await writeFile(join(workspace.folder, 'tokens.json'), JSON.stringify(tokens));
  const start = () =>
    startService(workspace, {
      SLUICE_ENFORCEMENT_MODE: 'Enforce',
      SLUICE_LOG_LEVEL: 'info',
      SLUICE_TOKENS: 'tokens.json',
      SLUICE_DASHBOARD_USER: LOGIN.user,
      SLUICE_DASHBOARD_PASSWORD: LOGIN.password,
      SLUICE_STORE_KEY: 'the key of the store of this proof',
      ...database,
    });
  let service = await start();

  const answerOf = async (response: Response): Promise<Answer> => {
    const text = await response.text();
    const body = text.startsWith('{') ? JSON.parse(text) : { text };
    return { status: response.status, reason: body.reason, body };
  };
  const ask: Target['ask'] = async (
    path,
    { by, headers = {}, body, method = body === undefined ? 'GET' : 'POST' } = {},
  ) => {
    const authorization: Record<string, string> = by === undefined ? {} : { authorization: `Bearer ${TOKENS[by]}` };
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const type: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' };
    return answerOf(
      await fetch(`${service.url}/flows/api/${path}`, {
        method,
        headers: { ...authorization, ...type, ...headers },
        ...sent,
      }),
    );
  };
  return {
    service: () => service,
    workspace,
    ask,
    manifest,
    deploy: (slug, inputs, { allow, others } = {}) =>
      ask(`flows/${idOf(slug)}${allow === undefined ? '' : `?allow=${allow}`}`, {
        by: 'deployer',
        method: 'PUT',
        body: manifest(slug, inputs, { version: randomUUID(), ...others }),
      }),
    send: async (slug, { headers, body }) =>
      answerOf(await fetch(`${service.url}/flows/api/webhook/${slug}`, { method: 'POST', headers, body })),
    async runsOf(slug) {
      const { body } = await ask(`runs?flowId=${idOf(slug)}&includeTotal=true&take=1`, { by: 'reader' });
      return Number(body.total);
    },
    async logIn(who) {
      const response = await fetch(`${service.url}/flows/login`, {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams({ token: TOKENS[who] }),
        redirect: 'manual',
      });
      return (response.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
    },
    async restart(signal = 'SIGTERM') {
      await service.stop(signal);
      service = await start();
    },
    async close() {
      await service.stop('SIGTERM');
      await workspace.remove();
    },
  };
}
