import { eventually, type Patience } from '../../eventually.ts';

export interface Answer {
  readonly status: number;
  readonly text: string;
}

export interface Request {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** What the worlds are on: one service or several, which may be hurt at any time. */
export interface Stage {
  /** The base URL of a service that may answer, once there is one. */
  up(): Promise<string>;
  /** A request is about to be sent, which may be the one at which something is hurt. */
  sending(): void;
  /** Something is hurt, so that a 503 is right. */
  readonly isHurt: boolean;
}

/** A database may be away for minutes. */
export const HURT: Patience = { seconds: 240, because: 'whatever was hurt is healed first' };

/** Undefined where no answer came, or a 503 because something is hurt: the request may have been carried out, or not. */
async function askOnce(stage: Stage, { method = 'POST', path, headers, body }: Request): Promise<Answer | undefined> {
  const url = await stage.up();
  stage.sending();
  const wasHurt = stage.isHurt;
  const json = body === undefined ? {} : { 'content-type': 'application/json' };
  try {
    const response = await fetch(`${url}/flows/api/${path}`, {
      method,
      headers: { ...json, ...headers },
      ...(body !== undefined && { body }),
      signal: AbortSignal.timeout(30_000),
    });
    const answer = { status: response.status, text: await response.text() };
    return answer.status === 503 && (wasHurt || stage.isHurt) ? undefined : answer;
  } catch (error) {
    if (error instanceof TypeError || (error instanceof Error && error.name === 'TimeoutError')) return undefined;
    throw error;
  }
}

export interface Answered {
  readonly answer: Answer;
  /** It came to the first request, so that nothing was carried out before. */
  readonly isFirst: boolean;
}

/** Asks until an answer comes. */
export async function ask(stage: Stage, request: Request): Promise<Answered> {
  let tries = 0;
  const answer = await eventually(
    () => {
      tries += 1;
      return askOnce(stage, request);
    },
    (got) => got !== undefined,
    HURT,
  );
  return { answer: answer as Answer, isFirst: tries === 1 };
}

export async function look<T>(stage: Stage, path: string): Promise<T> {
  const { answer } = await ask(stage, { method: 'GET', path });
  if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.text}`);
  return JSON.parse(answer.text) as T;
}
