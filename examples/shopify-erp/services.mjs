import { standIn } from '../stand-in.mjs';

standIn('erp', process.env.ERP_URL, ({ body }) => ({ booked: body.name }));
