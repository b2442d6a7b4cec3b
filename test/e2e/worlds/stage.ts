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

/** Where the worlds run: one service or several, which may be hurt at any time. */
export interface Stage {
  /** The base URL of a service that may answer, as soon as there is one. */
  up(): Promise<string>;
  /** Called before each request; it may hurt something at that request. */
  sending(): void;
  /** Something is hurt, so a 503 is allowed. */
  readonly isHurt: boolean;
}

/** A database may be away for minutes. */
export const HURT: Patience = { seconds: 240, because: 'whatever was hurt is healed first' };

/** Undefined without an answer, or for a 503 while hurt: the request may or may not have been carried out. */
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
  /** Answered at the first request, so nothing was carried out before. */
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
