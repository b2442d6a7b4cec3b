import type {
  SentWindow,
  Source,
  SourceAnswer,
  SourceItem,
  SourceRequest,
} from '../../../src/features/reconcile/source.ts';
import { parseJson } from '../../../src/model/json.ts';
import type { FakeApi } from './fakes/fake-api.ts';

type Ask = (request: SourceRequest) => SourceAnswer;

// More than any test has, to stop at endless pages.
const MAX_PAGES = 200;

/** Asks a fake without a socket. Throws for answers that are not 2xx. */
export function asking(api: FakeApi): Ask {
  return ({ method, url, headers, body = '' }) => {
    const answer = api({ method, url: new URL(url), headers, body });
    if (answer.status !== 200) throw new Error(`${answer.status} ${answer.body}`);
    return { status: 200, headers: answer.headers ?? {}, text: answer.body, json: parseJson(answer.body) };
  };
}

/** All items of a window, page by page, each with its delivery as sent. */
export function readAll(source: Source, window: SentWindow, ask: Ask) {
  const credentials = source.signIn === undefined ? {} : source.signIn.read(ask(source.signIn.request())).headers;
  const items: SourceItem[] = [];
  let pages = 0;
  for (let next: SourceRequest | undefined = source.list(window); next !== undefined; pages += 1) {
    if (pages === MAX_PAGES) throw new Error('the pages do not end');
    const page = source.read(ask({ ...next, headers: { ...next.headers, ...credentials } }), window);
    items.push(...page.items);
    next = page.next;
  }
  return { pages, items, sent: items.map((item) => source.sent(item, undefined)) };
}
