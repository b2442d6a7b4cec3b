import { beforeAll, describe, expect, it } from 'vitest';
import { UNKNOWN_ID } from './fixture.ts';
import {
  ALL,
  type Answer,
  api,
  CANARY_ID,
  type LimitedService,
  readable,
  SHOP_ID,
  startLimited,
  TOKENS,
} from './limited.ts';

/*
 * A credential limited to flows sees no others. The rows are the OpenAPI document's operations, asked about flows in
 * sight and about a hidden one, so that a new operation is tested too. All data of the hidden flow contains `canary`.
 */

interface Row {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly operationId: string;
  readonly parameters: readonly { readonly name: string; readonly in: string; readonly required?: boolean }[];
}

let service: LimitedService;
let rows: Row[] = [];
/** Values of the path parameters, in sight and hidden. */
let seen: Record<string, string>;
let hidden: Record<string, string>;
let before = new Map<string, Answer>();

const ask: LimitedService['ask'] = (...asked) => service.ask(...asked);
const asReader: LimitedService['asReader'] = (...asked) => service.asReader(...asked);

/** Ids that were never used. */
const NEVER: Record<string, string> = {
  flow: UNKNOWN_ID,
  run: UNKNOWN_ID,
  deliveryId: UNKNOWN_ID,
  jobId: `flow-${UNKNOWN_ID}-canaryNight`,
  name: 'never',
  key: 'canaryStep',
  idOrSlug: 'never',
};

const OTHERS: Readonly<Record<string, string>> = {
  revision: '1',
  from: '1',
  to: '1',
  triggerKey: 'shop',
  origin: 'https%3A%2F%2Fcanary.example',
};

/** The address of an operation for given ids. An unknown parameter fails the test: add its value here. */
function urlOf({ path }: Row, ids: Record<string, string>): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    if (path.startsWith(`${api}/runs/{id}/signals/`) && name === 'name') return 'approve';
    const known = name === 'id' ? ids[path.startsWith(`${api}/runs/`) ? 'run' : 'flow'] : (ids[name] ?? OTHERS[name]);
    if (known === undefined) throw new Error(`${path} has the parameter ${name}, which no flow of this test gives`);
    return encodeURIComponent(decodeURIComponent(known));
  });
}

/** Query parameters that an operation needs. */
const NEEDED: Readonly<Record<string, string>> = {
  listIterations: 'loop=lines',
  previewSchedule: 'cronExpression=0%209%20*%20*%20*',
  advanceConsumer: `from=${UNKNOWN_ID}&to=${UNKNOWN_ID}`,
};

/** Filter values that only the other flow has, and values that match nothing. */
const FILTERS: readonly (readonly [name: string, hidden: () => string, never: string])[] = [
  ['flowId', () => CANARY_ID, UNKNOWN_ID],
  ['runId', () => hidden.run ?? '', UNKNOWN_ID],
  ['search', () => 'canary', 'never-there'],
  ['search', () => hidden.run ?? '', UNKNOWN_ID],
  ['search', () => 'order:canary-7', 'order:never-7'],
  ['searchKeys', () => 'order:canary-7', 'order:never-7'],
  ['step', () => 'canaryStep', 'neverStep'],
  ['code', () => 'canary_code', 'never_code'],
  ['host', () => 'canary.example', 'never.example'],
  ['error', () => 'canary broke', 'never broke'],
  ['target', () => CANARY_ID, UNKNOWN_ID],
  ['target', () => hidden.run ?? '', UNKNOWN_ID],
  ['target', () => hidden.deliveryId ?? '', UNKNOWN_ID],
];

const has = ({ parameters }: Row, name: string) =>
  parameters.some((parameter) => parameter.in === 'query' && parameter.name === name);
const query = (...parts: readonly (string | undefined)[]) => {
  const given = parts.filter((part) => part !== undefined);
  return given.length === 0 ? '' : `?${given.join('&')}`;
};

/** A stream never ends, so a test below reads it over a socket; metrics and the API's documents have no rows. */
const isRead = ({ operationId }: Row) => operationId !== 'streamEvents';

/** The answer without the given ids, which may differ between two questions. */
function comparable(body: string, ids: Record<string, string>): string {
  return Object.values(ids).reduce((text, id) => (id.length < 5 ? text : text.replaceAll(id, '…')), body);
}

/** `upTo` is where a consumer continues; it moves with every accepted delivery. */
const withoutEnd = (answer: Answer | undefined) =>
  answer && { ...answer, body: answer.body.replace(/"upTo":"[^"]*"/, '') };

async function snapshot(): Promise<Map<string, Answer>> {
  const answers = new Map<string, Answer>();
  for (const row of rows
    .filter(isRead)
    .filter(({ method, operationId }) => method === 'GET' || isDryRun(operationId))) {
    const variants = [
      undefined,
      ...(has(row, 'includeTotal') ? ['includeTotal=true'] : []),
      ...(has(row, 'includeBuiltIn') ? ['includeBuiltIn=true'] : []),
      ...(has(row, 'bucket') ? ['bucket=minute', 'bucket=day'] : []),
      ...(has(row, 'search') ? ['search=o'] : []),
      ...(has(row, 'heldOnly') ? ['heldOnly=true', 'rejectedOnly=true', 'acceptedOnly=true'] : []),
      ...(has(row, 'waiting') ? ['waiting=slot', 'status=Failed', 'step=canaryStep'] : []),
      ...(has(row, 'target') ? [`target=${SHOP_ID}`, `target=${seen.run}&includeTotal=true`] : []),
    ];
    for (const variant of variants) {
      const url = urlOf(row, seen) + query(NEEDED[row.operationId], variant);
      answers.set(`${row.method} ${url}`, await asReader(row.method, url, isDryRun(row.operationId) ? {} : undefined));
    }
  }
  for (const url of [`${api}/openapi.json`, `${api}/docs`, '/flows'])
    answers.set(`GET ${url}`, await asReader('GET', url));
  return answers;
}

const isDryRun = (operationId: string) => operationId === 'dryRunDelivery';

beforeAll(async () => {
  service = await startLimited();
  const { paths } = JSON.parse((await ask(ALL, 'GET', `${api}/openapi.json`)).body);
  rows = Object.entries<Record<string, Omit<Row, 'method' | 'path'>>>(paths)
    .filter(([path]) => path !== `${api}/webhook/{idOrSlug}` && !path.startsWith('/health/'))
    .flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { operationId, parameters = [] }]) => ({
        method: method.toUpperCase() as Row['method'],
        path,
        operationId,
        parameters,
      })),
    );
  seen = await service.populateShop();
  before = await snapshot();
  hidden = await service.populateCanary();
});

describe('whoever is limited to flows', () => {
  it('gets the same answers, counts and totals included, whatever another flow is and does', async () => {
    const after = await snapshot();
    expect(before.size).toBeGreaterThan(70);
    for (const [url, answer] of after)
      expect({ url, ...withoutEnd(answer) }).toEqual({ url, ...withoutEnd(before.get(url)) });
  });

  it('sees something with each operation, or is told that it is about the whole service', async () => {
    const refused = [...before].filter(([, { status }]) => status !== 200);
    const operations = refused.map(([url, { status, body }]) => [url.split('?')[0], status, JSON.parse(body).reason]);
    const refusedPaths = [
      '/flows/api/activity',
      '/flows/api/activity',
      '/flows/api/activity/verify',
      '/flows/api/alerts',
    ];
    expect(operations.sort()).toEqual(
      [...refusedPaths, '/flows/api/hosts', '/flows/api/replicas', '/metrics'].map((path) => [
        `GET ${path}`,
        403,
        'limited_to_flows',
      ]),
    );
  });

  it('finds no word of another flow in any answer, nor its ids', async () => {
    for (const [url, { body }] of await snapshot()) {
      if (url.includes('canary')) continue;
      const text = readable(body);
      expect({ url, canary: /canary/i.exec(text)?.[0], id: text.includes(CANARY_ID) }).toEqual({
        url,
        canary: undefined,
        id: false,
      });
    }
  });

  it('finds nothing by what only another flow has, as by what nothing has', async () => {
    let asked = 0;
    for (const row of rows.filter(({ method }) => method === 'GET').filter(isRead)) {
      for (const [name, hiddenValue, never] of FILTERS.filter(([filter]) => has(row, filter))) {
        const urls = [hiddenValue(), never].map(
          (value) => urlOf(row, seen) + query(NEEDED[row.operationId], `${name}=${encodeURIComponent(value)}`),
        );
        const [found, nothing] = await Promise.all(urls.map((url) => asReader('GET', url)));
        const same = (body = '') => comparable(body, { value: hiddenValue(), never });
        expect({ url: urls[0], status: found?.status, body: same(found?.body) }).toEqual({
          url: urls[0],
          status: nothing?.status,
          body: same(nothing?.body),
        });
        asked += 1;
      }
    }
    expect(asked).toBeGreaterThan(25);
  });

  it('is answered about another flow as about one that there never was, and changes nothing of it', async () => {
    const single = rows.filter(isRead).filter(({ path }) => path.includes('{'));
    expect(single.length).toBeGreaterThan(45);
    const state = () => ask(ALL, 'GET', `${api}/flows/${CANARY_ID}`);
    const was = await state();
    for (const row of single) {
      const body = row.operationId === 'changeCron' ? { cronExpression: '0 0 * * *' } : undefined;
      const payload = row.operationId === 'discardHeld' ? { reason: 'moved' } : body;
      const [ofHidden, ofNever] = await Promise.all(
        [hidden, NEVER].map((ids) => asReader(row.method, urlOf(row, ids) + query(NEEDED[row.operationId]), payload)),
      );
      const shown = { operation: row.operationId, status: ofHidden?.status };
      expect(shown).toEqual({ operation: row.operationId, status: ofNever?.status });
      expect([403, 404]).toContain(ofHidden?.status);
      expect(comparable(ofHidden?.body ?? '', hidden)).toBe(comparable(ofNever?.body ?? '', NEVER));
    }
    expect(await state()).toEqual(was);
  });

  it('is told so by the page, which shows nothing of the whole service', async () => {
    expect((await asReader('GET', '/flows')).body).toContain('data-limited="true"');
    expect((await ask(TOKENS.unlimited.token, 'GET', '/flows')).body).not.toContain('data-limited');
  });

  it('would see all of that without the limit', async () => {
    for (const path of ['runs', 'webhooks/recent', 'flows', 'schedules', 'keys', 'webhooks/consumers', 'attention']) {
      expect((await ask(TOKENS.unlimited.token, 'GET', `${api}/${path}`)).body).toContain('canary');
    }
  });
});
