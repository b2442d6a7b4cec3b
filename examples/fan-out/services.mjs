import { standIn } from '../stand-in.mjs';

let answers = 0;

standIn('services', process.env.INVOICES_URL, () => {
  answers += 1;
  return { id: answers };
});
