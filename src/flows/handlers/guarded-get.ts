import { loadOnce } from '../load-once.ts';
import { createEgress } from './egress.ts';

/** Yields the text of a 200 answer from an https URL; rejects for every other answer, and if egress refuses. */
type GuardedGet = (url: string) => Promise<string>;

// A certificate chain has 10 kB. Publishers wait only a few seconds for their answer, so this must be quicker.
const MAX_BYTES = 65_536;
const TIME_LIMIT_MS = 3000;

/** The answer is not the requested resource. */
class GetError extends Error {
  readonly code: string;
  constructor(code: string) {
    super(code);
    this.name = 'GetError';
    this.code = code;
  }
}

/** For the service's own requests to publishers, within the limits of steps. Follows no redirect. */
export function createGuardedGet({ egressAllow }: { readonly egressAllow: readonly string[] }): GuardedGet {
  const egress = createEgress(egressAllow);
  // Loaded for the first request: few services ever send one.
  const openAgent = loadOnce(async () => {
    const { Agent } = await import('undici');
    return new Agent({ connect: { lookup: egress.lookup }, maxResponseSize: MAX_BYTES });
  });
  return async (text) => {
    const url = new URL(text);
    if (url.protocol !== 'https:') throw new GetError('NOT_HTTPS');
    egress.checkLiteral(url.hostname);
    const agent = await openAgent();
    const { statusCode, body } = await agent.request({
      origin: url.origin,
      path: `${url.pathname}${url.search}`,
      method: 'GET',
      headers: { 'user-agent': 'sluice' },
      signal: AbortSignal.timeout(TIME_LIMIT_MS),
    });
    if (statusCode === 200) return body.text();
    await body.dump({ limit: 16_384 });
    throw new GetError(`STATUS_${statusCode}`);
  };
}
