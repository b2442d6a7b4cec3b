import { parseJson } from './json.ts';

/** A failed request: the API refused it, or there was no answer (status 0). */
export class ApiError extends Error {
  readonly status: number;
  readonly reason: string | undefined;
  /** The whole answer; undefined if there was none. */
  readonly answer: unknown;
  constructor(
    status: number,
    message: string,
    { reason, answer }: { reason?: string | undefined; answer?: unknown } = {},
  ) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
    this.reason = reason;
    this.answer = answer;
  }
}

interface Question {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Sent unchanged, with these `headers`. */
  readonly rawBody?: BodyInit;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  /** Whether a 409 with a result, such as a refused deploy with its findings, is an answer and not an error. */
  readonly answersRefusal?: boolean;
}

/** Requests `/flows/api` + path. Throws `ApiError` with the API's message. */
export async function ask<Answer>(path: string, question: Question = {}): Promise<Answer> {
  const { method = 'GET', body, rawBody, headers, signal, answersRefusal = false } = question;
  const init: RequestInit = { method, headers: { accept: 'application/json', ...headers } };
  if (signal !== undefined) init.signal = signal;
  if (rawBody !== undefined) init.body = rawBody;
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { ...init.headers, 'content-type': 'application/json' };
  }
  const response = await send(`/flows/api${path}`, init);
  const text = await response.text();
  if (response.ok) return (text === '' ? null : parseJson(text)) as Answer;
  if (answersRefusal && response.status === 409 && isAnswer(text)) return parseJson(text) as Answer;
  throw errorOf(response.status, text);
}

/** Every error of the API contains its status. */
function isAnswer(text: string): boolean {
  try {
    return !('statusCode' in JSON.parse(text));
  } catch {
    // A proxy in between answers with something other than JSON.
    return false;
  }
}

async function send(url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiError(0, 'The service does not answer. Is it running?');
  }
}

function errorOf(status: number, text: string): ApiError {
  try {
    const answer = JSON.parse(text) as { message?: unknown; reason?: unknown };
    const { message } = answer;
    const reason = typeof answer.reason === 'string' ? answer.reason : undefined;
    if (typeof message === 'string') return new ApiError(status, message, { reason, answer });
  } catch {
    // A proxy in between answers with something other than JSON; then only its status is known.
  }
  return new ApiError(status, `The service answered ${status}`);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
