import { standIn } from '../stand-in.mjs';

let questions = 0;

standIn('ci', process.env.CI_BUILDS_URL, ({ body, searchParams }) => {
  if (body?.build !== undefined) return { deployed: body.build };
  if (body !== undefined) return { id: 7 };
  questions += 1;
  return { id: Number(searchParams.get('id')), state: questions > 2 ? 'passed' : 'running' };
});
